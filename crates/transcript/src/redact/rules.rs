//! The list of known secrets, in the manner of gitleaks.
//!
//! A rule runs only if one of its keywords is in the text, so a text without any costs one pass.
//! The first matching rule names the secret, so exact rules come first and those that depend on the
//! text around a secret come last.

/// The description of one kind of secret.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its name in a placeholder.
    pub name: &'static str,
    /// Keywords, case-insensitive. A text with such a secret holds at least one. Without keywords,
    /// the rule runs on every text.
    pub keywords: &'static [&'static str],
    /// The pattern of the secret; the group, if there is one, is the secret itself.
    pub pattern: &'static str,
    /// True if it begins at a word boundary.
    pub is_word: bool,
    /// The pattern of its first characters where a text was cut. Empty if only the text around it
    /// reveals the secret.
    pub start: &'static str,
    /// A further condition.
    pub check: Check,
    /// A sample text: before, the secret in two parts (so that no scanner mistakes this list for a
    /// leak), after.
    pub sample: (&'static str, [&'static str; 2], &'static str),
}

/// A further condition on a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// No further condition.
    None,
    /// It looks random: its entropy is above this many hundredths of a bit per character, and it
    /// has both letters and digits.
    Random(u32),
    /// It is neither a variable nor a blank to fill in, such as `$PASSWORD` or `***`.
    Literal,
}

impl Rule {
    /// Returns a sample text with such a secret, and the secret.
    pub fn sample(&self) -> (String, String) {
        let (before, secret, after) = self.sample;
        let secret = secret.concat();
        (format!("{before}{secret}{after}"), secret)
    }
}

/// Builds a rule for a secret that its first characters identify.
const fn token(
    name: &'static str,
    start: &'static str,
    keywords: &'static [&'static str],
    pattern: &'static str,
    sample: [&'static str; 2],
) -> Rule {
    let sample = ("", sample, "");
    Rule { name, keywords, pattern, is_word: true, start, check: Check::None, sample }
}

/// Every kind of secret that is masked.
pub const RULES: &[Rule] = &[
    Rule {
        name: "private-key",
        keywords: &["PRIVATE KEY"],
        // Matches up to the end marker; without one, as far as the text can be a key, including
        // line numbers.
        pattern: r#"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=\s\\→|:.,…"'-]*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\→|:,…-]*)"#,
        is_word: false,
        start: "-----BEGIN",
        check: Check::None,
        sample: (
            "the key is\n",
            [
                "-----BEGIN RSA PRIV",
                "ATE KEY-----\nMIIEpAIBAAKCAQEA7bq98ZxKsl3OqQ\nq8Zy+/Xw1=\n-----END RSA PRIVATE KEY-----",
            ],
            "\nkeep it",
        ),
    },
    token(
        "age-key",
        "AGE-SECRET-KEY-1",
        &["AGE-SECRET-KEY-"],
        r"AGE-SECRET-KEY-1[0-9A-Z]{30,}",
        ["AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KHCE"],
    ),
    token(
        "aws-access-key",
        "(?:AKIA|ASIA|ABIA|ACCA)",
        &["AKIA", "ASIA", "ABIA", "ACCA"],
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?-u:\b)",
        ["AKIA", "QYLPMN5HHHFPZAM2"],
    ),
    Rule {
        name: "aws-secret-key",
        keywords: &["aws"],
        pattern: r#"(?i:aws)[A-Za-z0-9_. -]{0,20}(?i:secret|sk)[A-Za-z0-9_. -]{0,20}["'\\]{0,4}\s{0,4}(?:=>|[:=,\s])\s{0,4}["'\\]{0,4}([A-Za-z0-9/+]{40})"#,
        is_word: false,
        start: "",
        check: Check::Random(300),
        sample: (
            "aws_secret_access_key = ",
            ["wJalrXUtnFEMI/K7MD", "ENG/bPxRfiCY7QzLm0Wt9a"],
            "\n",
        ),
    },
    token(
        "github-token",
        "(?:gh[pousr]_|github_pat_)",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})",
        ["ghp_", "x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOk"],
    ),
    token(
        "gitlab-token",
        "gl(?:pat|dt|rt|ptt|cbt|oas|soat|agent)-",
        &["glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "gloas-", "glsoat-", "glagent-"],
        r"gl(?:pat|dt|rt|ptt|cbt|oas|soat|agent)-[A-Za-z0-9_.-]{20,}",
        ["glpat-", "x7Kq2mZp9RtY4wLs8NvB"],
    ),
    token(
        "anthropic-key",
        "sk-ant-",
        &["sk-ant-"],
        r"sk-ant-[A-Za-z0-9_-]{20,}",
        ["sk-ant-", "api03-x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOk-9RtY4wLs8NvAA"],
    ),
    token(
        "openrouter-key",
        "sk-or-",
        &["sk-or-"],
        r"sk-or-[A-Za-z0-9-]{20,}",
        ["sk-or-", "v1-0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"],
    ),
    token(
        "openai-key",
        "sk-(?:proj|svcacct|admin|None)?-?",
        &["sk-"],
        r"sk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{32,})",
        ["sk-", "proj-x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOkT3BlbkFJ"],
    ),
    token(
        "groq-key",
        "gsk_",
        &["gsk_"],
        r"gsk_[A-Za-z0-9]{40,}",
        ["gsk_", "x7Kq2mZp9RtY4wLs8NvBWGdyb3FYx7Kq2mZp9RtY4wLs8NvB"],
    ),
    token(
        "xai-key",
        "xai-",
        &["xai-"],
        r"xai-[A-Za-z0-9]{60,}",
        ["xai-", "x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOkx7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOk"],
    ),
    token(
        "perplexity-key",
        "pplx-",
        &["pplx-"],
        r"pplx-[A-Za-z0-9]{40,}",
        ["pplx-", "x7kq2mzp9rty4wls8nvb3cjd6fgh1aqeuiokx7kq2mzp9rty"],
    ),
    token(
        "replicate-token",
        "r8_",
        &["r8_"],
        r"r8_[A-Za-z0-9]{37,}",
        ["r8_", "x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOkZ"],
    ),
    token(
        "tavily-key",
        "tvly-",
        &["tvly-"],
        r"tvly-[A-Za-z0-9-]{20,}",
        ["tvly-", "dev-x7Kq2mZp9RtY4wLs8NvB3cJd"],
    ),
    token(
        "elevenlabs-key",
        "sk_[0-9a-f]",
        &["sk_"],
        r"sk_[a-f0-9]{48}(?-u:\b)",
        ["sk_", "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071"],
    ),
    token(
        "huggingface-token",
        "(?:hf_|api_org_)",
        &["hf_", "api_org_"],
        r"(?:hf_|api_org_)[A-Za-z0-9]{30,}",
        ["hf_", "xKqmZpRtYwLsNvBcJdFgHaQeUiOkLmNbVc"],
    ),
    token(
        "slack-token",
        "(?:xox[a-z]-|xapp-)",
        &[
            "xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-",
            "xoxs-", "xapp-",
        ],
        r"(?:xoxe\.)?(?:xox[a-eoprs]-[A-Za-z0-9%-]{10,}|xapp-[A-Za-z0-9-]{20,})",
        ["xoxb", "-263594206564-2343594206574-FGqddMF8t08v8N7Oq4i57vs1"],
    ),
    Rule {
        name: "slack-webhook",
        keywords: &["hooks.slack.com"],
        pattern: r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_-]{20,})",
        is_word: false,
        start: "",
        check: Check::None,
        sample: (
            "https://hooks.slack.com/services/",
            ["T0000AAAA/B0000", "BBBB/x7Kq2mZp9RtY4wLs8NvB3cJd"],
            " posts",
        ),
    },
    Rule {
        name: "discord-webhook",
        keywords: &["/api/webhooks/"],
        pattern: r"discord(?:app)?\.com/api/webhooks/[0-9]{5,20}/([A-Za-z0-9_-]{30,})",
        is_word: false,
        start: "",
        check: Check::None,
        sample: (
            "https://discord.com/api/webhooks/123456789012345678/",
            ["x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQ", "x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOkZ"],
            "",
        ),
    },
    Rule {
        name: "discord-token",
        keywords: &[],
        pattern: r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
        is_word: true,
        start: "",
        check: Check::Random(380),
        sample: (
            "the bot is ",
            ["MTk4NjIyNDgzNDcxOTI1MjQ4", ".Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"],
            "!",
        ),
    },
    Rule {
        name: "telegram-token",
        keywords: &[":AA"],
        pattern: r"(?:bot)?([0-9]{6,16}:AA[A-Za-z0-9_-]{32,})",
        is_word: true,
        start: "(?:bot)?[0-9]{6,16}:AA",
        check: Check::None,
        sample: (
            "https://api.telegram.org/bot",
            ["5712345678", ":AAH-x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQ"],
            "/getMe",
        ),
    },
    token(
        "google-api-key",
        "AIza",
        &["AIza"],
        r"AIza[0-9A-Za-z_-]{35}",
        ["AIza", "SyD-x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQ"],
    ),
    token(
        "google-oauth",
        "(?:ya29\\.|GOCSPX-|1//0)",
        &["ya29.", "GOCSPX-", "1//0"],
        r"(?:ya29\.[0-9A-Za-z_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{30,})",
        ["GOCSPX", "-x7Kq2mZp9RtY4wLs8NvB3cJd6FgH"],
    ),
    Rule {
        name: "azure-storage-key",
        keywords: &["AccountKey", "SharedAccessKey"],
        pattern: r"(?i:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={0,2})",
        is_word: false,
        start: "",
        check: Check::None,
        sample: (
            "AccountName=shop;AccountKey=",
            [
                "x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQe",
                "UiOkx7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOkx7Kq2mZp9RtYAA==",
            ],
            ";x",
        ),
    },
    token(
        "stripe-key",
        "(?:(?:sk|rk)_(?:live|test|prod)_|whsec_)",
        &["sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_", "whsec_"],
        r"(?:(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{24,})",
        ["sk_li", "ve_x7Kq2mZp9RtY4wLs8NvB3cJd"],
    ),
    token(
        "square-token",
        "sq0[a-z]{3}-",
        &["sq0"],
        r"sq0[a-z]{3}-[0-9A-Za-z_-]{22,}",
        ["sq0atp-", "x7Kq2mZp9RtY4wLs8NvB3c"],
    ),
    token(
        "shopify-token",
        "shp(?:at|ca|pa|ss)_",
        &["shpat_", "shpca_", "shppa_", "shpss_"],
        r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32,}",
        ["shpat_", "0a1b2c3d4e5f60718293a4b5c6d7e8f9"],
    ),
    token(
        "npm-token",
        "npm_",
        &["npm_"],
        r"npm_[A-Za-z0-9]{36,}",
        ["npm_", "x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOk"],
    ),
    token(
        "pypi-token",
        "pypi-",
        &["pypi-"],
        r"pypi-[A-Za-z0-9_-]{50,}",
        ["pypi-", "AgEIcHlwaS5vcmcCJx7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOk7Kq2mZp9RtY"],
    ),
    token(
        "rubygems-key",
        "rubygems_",
        &["rubygems_"],
        r"rubygems_[a-f0-9]{40,}",
        ["rubygems_", "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071"],
    ),
    token(
        "crates-token",
        "cio[A-Za-z0-9]{6}",
        &["cio"],
        r"cio[A-Za-z0-9]{32}(?-u:\b)",
        ["cio", "x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQe"],
    ),
    token(
        "docker-token",
        "dckr_",
        &["dckr_"],
        r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}",
        ["dckr_pat_", "x7Kq2mZp9RtY4wLs8NvB3cJd6Fg"],
    ),
    token(
        "sendgrid-key",
        "SG\\.",
        &["SG."],
        r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        ["SG.", "x7Kq2mZp9RtY4wLs8NvB3c.x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOkx7Kq2mZ"],
    ),
    token(
        "mailgun-key",
        "key-[0-9a-f]",
        &["key-"],
        r"key-[0-9a-f]{32}(?-u:\b)",
        ["key-", "0a1b2c3d4e5f60718293a4b5c6d7e8f9"],
    ),
    token(
        "twilio-key",
        "SK[0-9a-f]{8}",
        &["SK"],
        r"SK[0-9a-f]{32}(?-u:\b)",
        ["SK", "0a1b2c3d4e5f60718293a4b5c6d7e8f9"],
    ),
    token(
        "digitalocean-token",
        "do[opr]_v1_",
        &["doo_v1_", "dop_v1_", "dor_v1_"],
        r"do[opr]_v1_[a-f0-9]{64}",
        ["dop_v1_", "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"],
    ),
    token(
        "supabase-token",
        "sb(?:p_|_secret_)",
        &["sbp_", "sb_secret_"],
        r"(?:sbp_[a-f0-9]{40,}|sb_secret_[A-Za-z0-9_-]{20,})",
        ["sbp_", "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d"],
    ),
    token(
        "vault-token",
        "hv[sbr]\\.",
        &["hvs.", "hvb.", "hvr."],
        r"hv[sbr]\.[A-Za-z0-9_-]{24,}",
        ["hvs.", "CAESIJx7Kq2mZp9RtY4wLs8NvB3cJd6FgH"],
    ),
    token(
        "databricks-token",
        "dapi[0-9a-f]{4}",
        &["dapi"],
        r"dapi[a-f0-9]{32}(?:-[0-9])?",
        ["dapi", "0a1b2c3d4e5f60718293a4b5c6d7e8f9"],
    ),
    token(
        "linear-key",
        "lin_(?:api|oauth)_",
        &["lin_api_", "lin_oauth_"],
        r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}",
        ["lin_api_", "x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOkx7Kq"],
    ),
    token(
        "notion-token",
        "ntn_",
        &["ntn_"],
        r"ntn_[A-Za-z0-9]{40,}",
        ["ntn_", "27182818284x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUi"],
    ),
    token(
        "figma-token",
        "figd_",
        &["figd_"],
        r"figd_[A-Za-z0-9_-]{30,}",
        ["figd_", "x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOk"],
    ),
    token(
        "grafana-token",
        "(?:glsa_|glc_)",
        &["glsa_", "glc_"],
        r"(?:glsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8}|glc_[A-Za-z0-9+/=]{32,})",
        ["glsa_", "x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQe_0a1b2c3d"],
    ),
    token(
        "sentry-token",
        "sntry[su]_",
        &["sntrys_", "sntryu_"],
        r"sntry[su]_[A-Za-z0-9+/=_-]{40,}",
        ["sntryu_", "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"],
    ),
    token(
        "newrelic-key",
        "NRAK-",
        &["NRAK-"],
        r"NRAK-[A-Z0-9]{27}",
        ["NRAK-", "X7KQ2MZP9RTY4WLS8NVB3CJD6FG"],
    ),
    token(
        "postman-key",
        "PMAK-",
        &["PMAK-"],
        r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
        ["PMAK-", "0a1b2c3d4e5f60718293a4b5-0a1b2c3d4e5f60718293a4b5c6d7e8f90a"],
    ),
    token(
        "atlassian-token",
        "ATATT3",
        &["ATATT3"],
        r"ATATT3[A-Za-z0-9_=-]{50,}",
        ["ATATT3", "xFfGF0x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOkx7Kq2mZp9RtY4wLs=0A1B2C3D"],
    ),
    token(
        "fly-token",
        "(?:fm[12][ar]?_|fo1_)",
        &["fm1r_", "fm1a_", "fm2_", "fo1_"],
        r"(?:fm1[ar]_|fm2_)[A-Za-z0-9+/=]{60,}|fo1_[A-Za-z0-9_-]{40,}",
        ["fo1_", "x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOkx7Kq2mZ"],
    ),
    token(
        "netlify-token",
        "nfp_",
        &["nfp_"],
        r"nfp_[A-Za-z0-9]{36,}",
        ["nfp_", "x7Kq2mZp9RtY4wLs8NvB3cJd6FgH1aQeUiOk"],
    ),
    token(
        "onepassword-token",
        "ops_eyJ",
        &["ops_eyJ"],
        r"ops_eyJ[A-Za-z0-9+/=_-]{60,}",
        ["ops_eyJ", "zaWduSW5BZGRyZXNzIjoiam9obi4xcGFzc3dvcmQuY29tIiwidXNlckF1dGgiOnsibWV0"],
    ),
    token(
        "jwt",
        "eyJ[A-Za-z0-9_-]{10,}\\.",
        &["eyJ"],
        r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?",
        [
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.",
            "eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
        ],
    ),
    Rule {
        name: "authorization",
        keywords: &["authorization", "bearer"],
        pattern: r#"(?i:authorization["'\\]{0,4}\s{0,4}[:=]\s{0,4}["'\\]{0,4}(?:bearer|basic|token|bot|apikey)\s{1,4}|bearer\s{1,4}["'\\]{0,4})([A-Za-z0-9._~+/=:-]{12,})"#,
        is_word: false,
        start: "",
        check: Check::Random(275),
        sample: (
            "curl -H 'Authorization: Bearer ",
            ["x7Kq2mZp9R", "tY4wLs8NvB3c"],
            "' https://a.example",
        ),
    },
    Rule {
        name: "url-password",
        keywords: &["://"],
        pattern: r#"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/?#:@"'<>`\\]{0,100}:([^\s/?#"'<>`\\]{1,200})@"#,
        is_word: false,
        start: "",
        check: Check::Literal,
        sample: ("postgres://shop:", ["correct-", "horse7"], "@db.example/shop"),
    },
    Rule {
        name: "password",
        keywords: &["password", "passwd", "passphrase"],
        pattern: r#"(?i:password|passwd|passphrase)(?:[_-][A-Za-z0-9]{1,16}){0,2}["'\\]{0,4}\s{0,4}(?::=|=>|[:=])\s{0,4}["'\\`]{0,4}([^\s"'\\`,;<>(){}\[\]$]{6,128})"#,
        is_word: false,
        start: "",
        check: Check::Random(200),
        sample: ("password: \"", ["hunter2", "-sesame"], "\""),
    },
    Rule {
        name: "secret",
        keywords: &[
            "apikey",
            "api_key",
            "api-key",
            "access_key",
            "access-key",
            "accesskey",
            "secret",
            "token",
            "credential",
            "private_key",
            "private-key",
            "privatekey",
            "signing_key",
            "encryption_key",
            "auth_key",
        ],
        pattern: r#"(?i:api[_-]?key|access[_-]?key|private[_-]?key|signing[_-]?key|encryption[_-]?key|auth[_-]?key|secret|token|credential)(?:Key|Value|Token|Base)?(?:[_-][A-Za-z0-9]{1,16}){0,3}["'\\]{0,4}\s{0,4}(?::=|=>|[:=])\s{0,4}["'\\`]{0,4}([^\s"'\\`,;:<>(){}\[\]$&|*@]{16,300})"#,
        is_word: false,
        start: "",
        check: Check::Random(340),
        sample: ("api_key = \"", ["q8Zy7Xw1Lk3", "Jh5Gf9Ds2Ap"], "\""),
    },
];
