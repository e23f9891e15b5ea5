//! Writes C structures: fields one after the other, little-endian, padded to their alignment. Called by [`super::answers`].

/// A structure being written.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    bytes: Vec<u8>,
}

impl Layout {
    pub(crate) fn u8(mut self, value: u8) -> Layout {
        self.bytes.push(value);
        self
    }

    pub(crate) fn u16(self, value: u16) -> Layout {
        self.aligned(&value.to_le_bytes())
    }

    pub(crate) fn u32(self, value: u32) -> Layout {
        self.aligned(&value.to_le_bytes())
    }

    pub(crate) fn u64(self, value: u64) -> Layout {
        self.aligned(&value.to_le_bytes())
    }

    pub(crate) fn zeros(mut self, count: usize) -> Layout {
        self.bytes.resize(self.bytes.len() + count, 0);
        self
    }

    pub(crate) fn u32s(self, values: impl IntoIterator<Item = u32>) -> Layout {
        values.into_iter().fold(self, Layout::u32)
    }

    pub(crate) fn u64s(self, values: impl IntoIterator<Item = u64>) -> Layout {
        values.into_iter().fold(self, Layout::u64)
    }

    /// The structure with padding at its end, where it has `size` bytes.
    pub(crate) fn sized(mut self, size: usize) -> Vec<u8> {
        self.bytes.resize(size, 0);
        self.bytes
    }

    /// A number's alignment is its size.
    fn aligned(mut self, number: &[u8]) -> Layout {
        self.bytes.resize(self.bytes.len().next_multiple_of(number.len()), 0);
        self.bytes.extend_from_slice(number);
        self
    }
}

/// The number at this place of a structure that a caller wrote; 0 past its end.
pub(crate) fn u16_at(bytes: &[u8], place: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, place))
}

/// As [`u16_at`].
pub(crate) fn u32_at(bytes: &[u8], place: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, place))
}

/// As [`u16_at`].
pub(crate) fn u64_at(bytes: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, place))
}

fn array_at<const SIZE: usize>(bytes: &[u8], place: usize) -> [u8; SIZE] {
    let found = bytes.get(place..place + SIZE).and_then(|part| part.try_into().ok());
    found.unwrap_or([0; SIZE])
}
