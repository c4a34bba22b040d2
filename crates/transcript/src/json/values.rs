//! The types that can be read, and how each converts each JSON type.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess};
use serde_json::value::RawValue;

use super::{Lenient, Number, Oddities, Parsed, Value, skip_list, skip_object};
use crate::entry::RawJson;
use crate::problem::ProblemKind;
use crate::time::Timestamp;

impl<'de> Lenient<'de> for Cow<'de, str> {
    fn from_text(text: &str) -> Option<Self> {
        Some(Cow::Owned(text.to_owned()))
    }

    fn from_borrowed(text: &'de str) -> Option<Self> {
        Some(Cow::Borrowed(text))
    }
}

/// A short text that some writers store as a number: an id, a version.
#[derive(Debug, Clone)]
pub(crate) struct Word<'a>(pub(crate) Cow<'a, str>);

impl<'de> Lenient<'de> for Word<'de> {
    fn from_text(text: &str) -> Option<Self> {
        Some(Word(Cow::Owned(text.to_owned())))
    }

    fn from_borrowed(text: &'de str) -> Option<Self> {
        Some(Word(Cow::Borrowed(text)))
    }

    fn from_number(number: Number) -> Option<Self> {
        Some(Word(Cow::Owned(match number {
            Number::Unsigned(number) => number.to_string(),
            Number::Negative(number) => number.to_string(),
            Number::Float(number) => number.to_string(),
        })))
    }
}

/// A field in which `null` and absence differ: `Option<Nullable<T>>` is absent, null, or a value.
#[derive(Debug, Clone)]
pub(crate) struct Nullable<T>(pub(crate) Option<T>);

impl<'de, T: Lenient<'de>> Lenient<'de> for Nullable<T> {
    const PROBLEM: ProblemKind = T::PROBLEM;

    fn read<D: Deserializer<'de>>(
        deserializer: D,
        odd: &mut Oddities,
    ) -> Result<Parsed<Self>, D::Error> {
        Ok(match T::read(deserializer, odd)? {
            Parsed::Value(value) => Parsed::Value(Nullable(Some(value))),
            Parsed::Null => Parsed::Value(Nullable(None)),
            Parsed::Unexpected => Parsed::Unexpected,
        })
    }
}

impl<'de> Lenient<'de> for bool {
    fn from_bool(value: bool) -> Option<Self> {
        Some(value)
    }
}

impl<'de> Lenient<'de> for u64 {
    fn from_text(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }

    fn from_number(number: Number) -> Option<Self> {
        match number {
            Number::Unsigned(number) => Some(number),
            Number::Negative(_) => None,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the guard leaves only numbers that fit"
            )]
            Number::Float(number) => (0.0..9e15).contains(&number).then_some(number as u64),
        }
    }
}

impl<'de> Lenient<'de> for f64 {
    fn from_text(text: &str) -> Option<Self> {
        text.trim().parse().ok().filter(|number: &f64| number.is_finite())
    }

    fn from_number(number: Number) -> Option<Self> {
        Some(number.as_f64())
    }
}

impl<'de> Lenient<'de> for Timestamp {
    const PROBLEM: ProblemKind = ProblemKind::BadTime;

    fn from_text(text: &str) -> Option<Self> {
        Timestamp::from_text(text)
    }

    fn from_number(number: Number) -> Option<Self> {
        Timestamp::from_number(number.as_f64())
    }
}

impl<'de> Lenient<'de> for RawJson<'de> {
    fn read<D: Deserializer<'de>>(
        deserializer: D,
        _odd: &mut Oddities,
    ) -> Result<Parsed<Self>, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?;
        Ok(if raw.get() == "null" { Parsed::Null } else { Parsed::Value(RawJson::Borrowed(raw)) })
    }
}

impl<'de, T: Lenient<'de>> Lenient<'de> for Vec<T> {
    fn from_list<A: SeqAccess<'de>>(
        mut list: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        let mut values = Vec::new();
        // Elements of an unexpected type are noted under "[]" and left out.
        while let Some(value) = list.next_element_seed(Value::new("[]", odd))? {
            values.extend(value);
        }
        Ok(Some(values))
    }
}

/// Any value but null; only its presence counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present;

impl<'de> Lenient<'de> for Present {
    fn from_text(_text: &str) -> Option<Self> {
        Some(Present)
    }

    fn from_bool(_value: bool) -> Option<Self> {
        Some(Present)
    }

    fn from_number(_number: Number) -> Option<Self> {
        Some(Present)
    }

    fn from_list<A: SeqAccess<'de>>(
        list: A,
        _odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        skip_list(list)?;
        Ok(Some(Present))
    }

    fn from_object<A: MapAccess<'de>>(
        object: A,
        _odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        skip_object(object)?;
        Ok(Some(Present))
    }
}

/// Returns the text unless it is empty: agents write `""` for "none".
pub(crate) fn non_empty(text: Option<Cow<'_, str>>) -> Option<Cow<'_, str>> {
    text.filter(|text| !text.is_empty())
}
