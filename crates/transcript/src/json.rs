//! Reads JSON into typed structs. No unexpected value stops the reader.
//!
//! [`fields!`] declares a struct of optional fields. Its reader skips unknown keys, takes the last
//! of repeated keys, and turns a value of an unexpected type into `None`. Repeated keys and
//! unexpected types are noted in [`Oddities`]. Text borrows from the record unless it holds escapes.
//! Only input that is not JSON is an error; the caller then tries to recover the record.
//!
//! Nothing here knows any agent's format.

pub(crate) mod object;
mod stringify;
pub(crate) mod strings;
mod values;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

pub use self::stringify::{is_stringified, stringify};
pub(crate) use self::values::{Nullable, Present, Word, non_empty};
use crate::problem::{Problem, ProblemKind};

/// Decodes `json`, which must be one object, into a struct declared by [`fields!`].
///
/// An error means that `json` is not one JSON object; arrays and scalars are errors too.
///
/// Such a struct has the fields of all record types, one or two kilobytes in all, so it is filled
/// in place and returned in a box.
pub(crate) fn object<'de, T: Fields<'de>>(
    json: &'de [u8],
    odd: &mut Oddities,
) -> serde_json::Result<Box<T>> {
    // Checking the whole line for UTF-8 once is faster than checking each string.
    match std::str::from_utf8(json) {
        Ok(text) => read_object(serde_json::Deserializer::from_str(text), odd),
        Err(_) => read_object(serde_json::Deserializer::from_slice(json), odd),
    }
}

fn read_object<'de, R: serde_json::de::Read<'de>, T: Fields<'de>>(
    mut deserializer: serde_json::Deserializer<R>,
    odd: &mut Oddities,
) -> serde_json::Result<Box<T>> {
    let mut value = Box::<T>::default();
    deserializer.deserialize_map(ObjectVisitor { odd, into: &mut *value })?;
    deserializer.end()?;
    Ok(value)
}

/// The oddities of a record, each noted once. Field names come from the program, never from the
/// record, so that problems carry no transcript text.
#[derive(Debug, Default)]
pub(crate) struct Oddities {
    seen: Vec<(ProblemKind, &'static str)>,
}

impl Oddities {
    /// Notes an oddity of the field `key`.
    pub(crate) fn note(&mut self, kind: ProblemKind, key: &'static str) {
        // A list of a million odd blocks would repeat the same note a million times.
        if !self.seen.contains(&(kind, key)) {
            self.seen.push((kind, key));
        }
    }

    /// Returns whether nothing was odd.
    pub(crate) fn is_none(&self) -> bool {
        self.seen.is_empty()
    }

    /// Returns the problems in the order in which they were found.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        self.seen.into_iter().map(|(kind, key)| Problem::new(kind, key)).collect()
    }
}

/// The result of reading one value.
#[derive(Debug)]
pub(crate) enum Parsed<T> {
    /// A usable value.
    Value(T),
    /// `null`, which counts as absent.
    Null,
    /// A value of an unexpected type. The reader has skipped it.
    Unexpected,
}

/// A JSON number.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    /// Zero or above, without a fraction.
    Unsigned(u64),
    /// Below zero, without a fraction.
    Negative(i64),
    /// Anything else.
    Float(f64),
}

impl Number {
    #[expect(clippy::cast_precision_loss, reason = "times and costs need no more than 53 bits")]
    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Number::Unsigned(number) => number as f64,
            Number::Negative(number) => number as f64,
            Number::Float(number) => number,
        }
    }
}

/// A type that can be read from any JSON value. Each method converts one JSON type; `None` means
/// that this type is unexpected.
pub(crate) trait Lenient<'de>: Sized {
    /// The kind of problem that is noted for an unexpected value.
    const PROBLEM: ProblemKind = ProblemKind::BadField;

    /// Converts a string that held escapes.
    fn from_text(_text: &str) -> Option<Self> {
        None
    }

    /// Converts a string that borrows from the record.
    fn from_borrowed(text: &'de str) -> Option<Self> {
        Self::from_text(text)
    }

    /// Converts `true` or `false`.
    fn from_bool(_value: bool) -> Option<Self> {
        None
    }

    /// Converts a number.
    fn from_number(_number: Number) -> Option<Self> {
        None
    }

    /// Converts `null`, which by default counts as an absent field.
    fn from_null() -> Option<Self> {
        None
    }

    /// Converts a list. An implementation must read the list to its end.
    fn from_list<A: SeqAccess<'de>>(
        list: A,
        _odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        skip_list(list)?;
        Ok(None)
    }

    /// Converts an object. An implementation must read the object to its end.
    fn from_object<A: MapAccess<'de>>(
        object: A,
        _odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        skip_object(object)?;
        Ok(None)
    }

    /// Reads one value of any type.
    fn read<D: Deserializer<'de>>(
        deserializer: D,
        odd: &mut Oddities,
    ) -> Result<Parsed<Self>, D::Error> {
        deserializer.deserialize_any(AnyVisitor { odd, target: PhantomData })
    }
}

/// A struct declared by [`fields!`].
pub(crate) trait Fields<'de>: Default {
    /// Reads an object to its end into the struct.
    fn read_fields<A: MapAccess<'de>>(
        &mut self,
        object: A,
        odd: &mut Oddities,
    ) -> Result<(), A::Error>;
}

/// A large struct stays in its box instead of being moved.
impl<'de, T: Fields<'de>> Lenient<'de> for Box<T> {
    fn from_object<A: MapAccess<'de>>(
        object: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        let mut this = Box::<T>::default();
        this.read_fields(object, odd)?;
        Ok(Some(this))
    }
}

/// Declares a struct of optional fields and its [`Lenient`] reader:
/// `"key" => field: Type`, each field becoming `Option<Type>`.
macro_rules! fields {
    ($(#[$meta:meta])* struct $name:ident<$life:lifetime> {
        $($(#[$field_meta:meta])* $key:literal => $field:ident: $type:ty,)+
    }) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        pub(crate) struct $name<$life> { $($(#[$field_meta])* pub(crate) $field: Option<$type>,)+ }

        impl<$life> $crate::json::Fields<$life> for $name<$life> {
            $crate::json::fields!(@reader $life $($key => $field: $type,)+);
        }

        $crate::json::fields!(@lenient $life $name<$life>);
    };
    ($(#[$meta:meta])* struct $name:ident {
        $($(#[$field_meta:meta])* $key:literal => $field:ident: $type:ty,)+
    }) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        pub(crate) struct $name { $($(#[$field_meta])* pub(crate) $field: Option<$type>,)+ }

        impl<'de> $crate::json::Fields<'de> for $name {
            $crate::json::fields!(@reader 'de $($key => $field: $type,)+);
        }

        $crate::json::fields!(@lenient 'de $name);
    };
    (@lenient $life:lifetime $name:ty) => {
        impl<$life> $crate::json::Lenient<$life> for $name {
            fn from_object<A: serde::de::MapAccess<$life>>(
                object: A,
                odd: &mut $crate::json::Oddities,
            ) -> Result<Option<Self>, A::Error> {
                let mut this = Self::default();
                $crate::json::Fields::read_fields(&mut this, object, odd)?;
                Ok(Some(this))
            }
        }
    };
    (@reader $life:lifetime $($key:literal => $field:ident: $type:ty,)+) => {
        fn read_fields<A: serde::de::MapAccess<$life>>(
            &mut self,
            mut object: A,
            odd: &mut $crate::json::Oddities,
        ) -> Result<(), A::Error> {
            #[allow(non_camel_case_types)]
            enum Index { $($field,)+ }
            // One bit per field: a repeated key is odd even if its first value was null.
            let mut seen_fields = 0u64;
            while let Some(key) = object.next_key_seed($crate::json::Key)? {
                match &*key {
                    $($key => {
                        const BIT: u64 = 1 << Index::$field as u64;
                        if seen_fields & BIT != 0 {
                            odd.note($crate::problem::ProblemKind::DuplicateKey, $key);
                        }
                        seen_fields |= BIT;
                        self.$field = object.next_value_seed($crate::json::Value::new($key, odd))?;
                    })+
                    _ => $crate::json::skip_value(&mut object)?,
                }
            }
            Ok(())
        }
    };
}
pub(crate) use fields;

/// Reads and discards the rest of a list.
pub(crate) fn skip_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<(), A::Error> {
    while list.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

/// Reads and discards the rest of an object.
pub(crate) fn skip_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<(), A::Error> {
    while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

/// Reads and discards the value of an unknown key.
pub(crate) fn skip_value<'de, A: MapAccess<'de>>(object: &mut A) -> Result<(), A::Error> {
    object.next_value::<IgnoredAny>().map(drop)
}

/// Reads an object's key, which borrows unless it holds escapes.
pub(crate) struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }
}

/// Reads the value of the field `key`, and notes an unexpected type.
pub(crate) struct Value<'o, T> {
    key: &'static str,
    odd: &'o mut Oddities,
    target: PhantomData<T>,
}

impl<'o, T> Value<'o, T> {
    /// Returns a reader for the value of `key`.
    pub(crate) fn new(key: &'static str, odd: &'o mut Oddities) -> Self {
        Value { key, odd, target: PhantomData }
    }
}

impl<'de, T: Lenient<'de>> DeserializeSeed<'de> for Value<'_, T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        Ok(match T::read(deserializer, self.odd)? {
            Parsed::Value(value) => Some(value),
            Parsed::Null => None,
            Parsed::Unexpected => {
                self.odd.note(T::PROBLEM, self.key);
                None
            }
        })
    }
}

/// A visitor that accepts every JSON type and lets `T` convert it.
struct AnyVisitor<'o, T> {
    odd: &'o mut Oddities,
    target: PhantomData<T>,
}

impl<T> From<Option<T>> for Parsed<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Parsed::Unexpected, Parsed::Value)
    }
}

impl<'de, T: Lenient<'de>> Visitor<'de> for AnyVisitor<'_, T> {
    type Value = Parsed<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(T::from_text(text).into())
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(T::from_borrowed(text).into())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(T::from_bool(value).into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(T::from_number(Number::Unsigned(number)).into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(T::from_number(Number::Negative(number)).into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(T::from_number(Number::Float(number)).into())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(T::from_null().map_or(Parsed::Null, Parsed::Value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        T::from_list(list, self.odd).map(Parsed::from)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
        T::from_object(object, self.odd).map(Parsed::from)
    }
}

/// A visitor that accepts only an object.
struct ObjectVisitor<'o, T> {
    odd: &'o mut Oddities,
    into: &'o mut T,
}

impl<'de, T: Fields<'de>> Visitor<'de> for ObjectVisitor<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
        self.into.read_fields(object, self.odd)
    }
}

#[cfg(test)]
mod tests;
