//! The generator's own random numbers: xoshiro256++ seeded by splitmix64.
//!
//! Not a crate, so that a seed still gives the same home in ten years; never seeded from the clock
//! or the system.

/// A deterministic stream of random numbers.
#[derive(Clone)]
pub(crate) struct Prng {
    state: [u64; 4],
}

impl Prng {
    /// Starts the stream that belongs to `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let mut counter = seed;
        Self { state: std::array::from_fn(|_| splitmix64(&mut counter)) }
    }

    /// Starts the stream of the `index`-th part of what `seed` describes.
    ///
    /// Each file has its own stream, so that a change to one kind of file leaves the others
    /// unchanged.
    pub(crate) fn stream(seed: u64, index: u64) -> Self {
        let mut counter = seed ^ index.wrapping_mul(0x9E6C_63D0_876A_68EE);
        Self::new(splitmix64(&mut counter))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        let (b_next, a_next) = (b ^ c, a ^ d);
        self.state = [a_next, b_next, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// Returns a number in `0..bound`; `bound` must not be 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // The high half of a product: a bias of 2^-64 × bound does not matter here.
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Returns a number in `low..=high`.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Returns a number in `low..=high`, small ones being more frequent, as sizes are.
    pub(crate) fn skewed(&mut self, low: usize, high: usize) -> usize {
        let unit = self.unit();
        low + (unit * unit * unit * (high - low) as f64) as usize
    }

    /// Returns a number in `0.0..1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true `per_thousand` times out of 1,000.
    pub(crate) fn chance(&mut self, per_thousand: usize) -> bool {
        self.below(1000) < per_thousand
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// Appends `n_digits` lower-case hexadecimal digits.
    pub(crate) fn push_hex(&mut self, out: &mut String, n_digits: usize) {
        self.push_symbols(out, n_digits, b"0123456789abcdef", 4);
    }

    /// Appends `n_symbols` of base64, which no compressor makes smaller than 3/4.
    pub(crate) fn push_base64(&mut self, out: &mut String, n_symbols: usize) {
        self.push_symbols(
            out,
            n_symbols,
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
            6,
        );
    }

    /// Returns `prefix` and 22 characters, the shape of the API's own ids.
    pub(crate) fn api_id(&mut self, prefix: &str) -> String {
        let mut id = String::with_capacity(prefix.len() + 24);
        id.push_str(prefix);
        id.push_str("01");
        self.push_symbols(
            &mut id,
            22,
            b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789ABCDEF",
            6,
        );
        id
    }

    /// Returns a version 4 UUID.
    pub(crate) fn uuid(&mut self) -> String {
        let mut id = String::with_capacity(36);
        self.push_hex(&mut id, 8);
        id.push('-');
        self.push_hex(&mut id, 4);
        id.push_str("-4");
        self.push_hex(&mut id, 3);
        id.push_str("-a");
        self.push_hex(&mut id, 3);
        id.push('-');
        self.push_hex(&mut id, 12);
        id
    }

    fn push_symbols(&mut self, out: &mut String, count: usize, symbols: &[u8], bits: u32) {
        let per_word = (64 / bits) as usize;
        let mask = (1u64 << bits) - 1;
        out.reserve(count);
        let mut left = count;
        while left > 0 {
            let mut word = self.next_u64();
            for _ in 0..left.min(per_word) {
                out.push(char::from(symbols[(word & mask) as usize]));
                word >>= bits;
            }
            left -= left.min(per_word);
        }
    }
}

fn splitmix64(counter: &mut u64) -> u64 {
    *counter = counter.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *counter;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_stream_and_other_seed_other_stream() {
        let take = |mut prng: Prng| (0..4).map(|_| prng.next_u64()).collect::<Vec<_>>();
        assert_eq!(take(Prng::new(7)), take(Prng::new(7)));
        assert_ne!(take(Prng::new(7)), take(Prng::new(8)));
        assert_ne!(take(Prng::stream(7, 0)), take(Prng::stream(7, 1)));
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut prng = Prng::new(1);
        for _ in 0..1000 {
            assert!(prng.below(3) < 3);
            assert!((5..=9).contains(&prng.between(5, 9)));
            assert!((10..=90).contains(&prng.skewed(10, 90)));
        }
        assert_eq!(prng.uuid().len(), 36);
        assert_eq!(prng.api_id("msg_").len(), 28);
    }
}
