//! Tests of the plugin.

mod books;
mod kubelet;
mod node;
mod steps;
mod worlds;

use super::size::ShareSize;

pub(super) const A: &str = "GPU-0aaaaaaa-0000-0000-0000-000000000001";
pub(super) const B: &str = "GPU-0bbbbbbb-0000-0000-0000-000000000002";

pub(super) fn size(text: &str) -> ShareSize {
    text.parse().unwrap()
}
