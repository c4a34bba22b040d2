//! Random numbers that depend only on a seed.

/// SplitMix64: fast, and good enough to choose times and bytes.
#[derive(Debug)]
pub struct Prng {
    state: u64,
}

impl Prng {
    /// Creates a sequence of numbers from a seed.
    pub fn new(seed: u64) -> Prng {
        Prng { state: seed }
    }

    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, or zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}
