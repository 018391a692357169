//! Fields to bytes and back, and the macros that build messages out of fields.
//!
//! Decoding never panics and never allocates more than the packet could hold.

/// A value that goes into a packet.
pub trait Field: Sized {
    /// Appends the value.
    fn put(&self, packet: &mut Vec<u8>);
    /// Takes a value off the front; `None` if it is not there.
    fn take(rest: &mut &[u8]) -> Option<Self>;
}

macro_rules! number {
    ($($ty:ty)*) => {
        $(impl Field for $ty {
            fn put(&self, packet: &mut Vec<u8>) {
                packet.extend_from_slice(&self.to_le_bytes());
            }
            fn take(rest: &mut &[u8]) -> Option<Self> {
                let (front, back) = rest.split_first_chunk()?;
                *rest = back;
                Some(Self::from_le_bytes(*front))
            }
        })*
    };
}
number!(u8 u16 u32 u64);

impl<const N: usize> Field for [u8; N] {
    fn put(&self, packet: &mut Vec<u8>) {
        packet.extend_from_slice(self);
    }
    fn take(rest: &mut &[u8]) -> Option<Self> {
        let (front, back) = rest.split_first_chunk()?;
        *rest = back;
        Some(*front)
    }
}

impl Field for String {
    fn put(&self, packet: &mut Vec<u8>) {
        (self.len() as u32).put(packet);
        packet.extend_from_slice(self.as_bytes());
    }
    fn take(rest: &mut &[u8]) -> Option<Self> {
        let length = u32::take(rest)? as usize;
        let (front, back) = rest.split_at_checked(length)?;
        *rest = back;
        Self::from_utf8(front.to_vec()).ok()
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, packet: &mut Vec<u8>) {
        (self.len() as u32).put(packet);
        self.iter().for_each(|item| item.put(packet));
    }
    fn take(rest: &mut &[u8]) -> Option<Self> {
        let length = u32::take(rest)? as usize;
        // Every item is at least one byte, so a length that lies cannot make us allocate.
        if length > rest.len() {
            return None;
        }
        (0..length).map(|_| T::take(rest)).collect()
    }
}

/// An enum of messages: the number before a variant is its first two bytes.
macro_rules! messages {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$doc:meta])* $number:literal $variant:ident { $($field:ident: $ty:ty),* $(,)? },)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "a field is described by its message")]
        pub enum $name {
            $($(#[$doc])* $variant { $($field: $ty),* },)*
        }

        impl $name {
            /// The packet.
            pub fn encode(&self) -> Vec<u8> {
                let mut packet = Vec::with_capacity(64);
                match self {
                    $(Self::$variant { $($field),* } => {
                        Field::put(&{ $number as u16 }, &mut packet);
                        $(Field::put($field, &mut packet);)*
                    })*
                }
                packet
            }

            /// The message in a packet; `None` unless it is exactly one.
            pub fn decode(packet: &[u8]) -> Option<Self> {
                let mut rest = packet;
                let message = match u16::take(&mut rest)? {
                    $($number => Self::$variant { $($field: Field::take(&mut rest)?),* },)*
                    _ => return None,
                };
                rest.is_empty().then_some(message)
            }
        }
    };
}

/// A struct that is a field.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $ty:ty,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$doc])* pub $field: $ty,)* }

        impl Field for $name {
            fn put(&self, packet: &mut Vec<u8>) {
                $(self.$field.put(packet);)*
            }
            fn take(rest: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: Field::take(rest)?),* })
            }
        }
    };
}

pub(crate) use {messages, record};
