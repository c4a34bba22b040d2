//! The file sizes of a home: many small files, and a few that hold most bytes.

/// Share of files up to a size, from a corpus of 1,600 files: half of them are
/// below 80 KB, one in a hundred above 4.5 MB, none above 24 MB.
const QUANTILES: &[(f64, f64)] =
    &[(0.0, 4e3), (0.5, 80e3), (0.9, 650e3), (0.99, 4.5e6), (1.0, 24e6)];

/// Returns file sizes, largest first, that add up to about `total`.
///
/// Sizes are at evenly spaced quantiles instead of random ones, so that a small home has the same
/// shape as a large one. With `n_files` given, all sizes are scaled to reach the total.
pub(crate) fn long_tail(total: u64, n_files: Option<usize>) -> Vec<usize> {
    let n_files = n_files.unwrap_or_else(|| (total as f64 / mean_size()).round() as usize).max(4);
    let sizes: Vec<f64> =
        (0..n_files).rev().map(|i| size_at((i as f64 + 0.5) / n_files as f64)).collect();
    let scale = total as f64 / sizes.iter().sum::<f64>();
    sizes.iter().map(|size| (size * scale) as usize).collect()
}

/// Returns the size that this share of all files stays below.
fn size_at(quantile: f64) -> f64 {
    for pair in QUANTILES.windows(2) {
        let ((from, low), (to, high)) = (pair[0], pair[1]);
        if quantile <= to {
            return low * (high / low).powf((quantile - from) / (to - from));
        }
    }
    24e6
}

fn mean_size() -> f64 {
    (0..10_000).map(|i| size_at((f64::from(i) + 0.5) / 1e4)).sum::<f64>() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_home_has_the_measured_shape() {
        let sizes = long_tail(525_000_000, None);
        let at = |share: f64| sizes[((1.0 - share) * sizes.len() as f64) as usize] as f64;
        assert!((70e3..90e3).contains(&at(0.5)), "p50 {}", at(0.5));
        assert!((550e3..750e3).contains(&at(0.9)), "p90 {}", at(0.9));
        assert!((4e6..5e6).contains(&at(0.99)), "p99 {}", at(0.99));
        let total: usize = sizes.iter().sum();
        assert!((520_000_000..530_000_000).contains(&total));
    }

    #[test]
    fn a_wanted_number_of_files_is_kept() {
        let sizes = long_tail(1_000_000, Some(50));
        assert_eq!(sizes.len(), 50);
        assert!((990_000..=1_000_000).contains(&sizes.iter().sum::<usize>()));
    }
}
