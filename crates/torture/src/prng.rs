//! Random numbers that are the same in every run with the same seed.

/// SplitMix64: quick, and good enough to choose moments and bytes.
#[derive(Debug)]
pub struct Prng {
    state: u64,
}

impl Prng {
    /// Numbers that follow from `seed`.
    pub fn new(seed: u64) -> Prng {
        Prng { state: seed }
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, or zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}
