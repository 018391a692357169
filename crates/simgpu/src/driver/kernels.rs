//! The kernels that really compute.
//!
//! Code is recognised by entry name and parameter sizes; the results are those the CUDA code of the
//! name gives, at the cost a kernel of that kind has on the device.
//!
//! | entry | what it does |
//! |---|---|
//! | any whose code only returns | nothing |
//! | any whose code begins with `trap` | breaks the context: CUDA_ERROR_LAUNCH_FAILED |
//! | `vector_add(f32* c, f32* a, f32* b, u32 n)` | `c[i] = a[i] + b[i]` |
//! | `add32(u32* c, u32* a, u32* b, u32 n)` | `c[i] = a[i] + b[i]`, wrapping |
//! | `fill_u32(u32* p, u32 v, u64 n)`, `fill32(u32* p, u32 v, u32 n)` | `p[i] = v` |
//! | `checksum(u32* p, u64 n, u64* out)` | `*out = Σ p[i]`, wrapping |
//! | `matmul(f32* c, f32* a, f32* b, u32 n)` | `c = a · b`, row-major n × n |
//! | `fixed_work(u64 iterations, u64* counter)` | adds to the counter; 1 ns of GPU time each |
//! | `share_work(u64* counter, u64 iterations)` | adds 1 to the counter; 1 ns of GPU time an iteration |
//! | `spin_ns(u64 ns)` | passes the time |
//! | `count_down(u64 condition, u32* left, u32 less, u64 iterations)` | takes `less` from what is left, sets the condition to that; 1 ns of GPU time an iteration |
//! | `deep(u64 p)` | uses its local memory; writes `*p = 1` when `p` is not null |
//!
//! Anything else cannot be launched. An address that is not mapped breaks the context with
//! CUDA_ERROR_ILLEGAL_ADDRESS.

use super::error::*;
use super::machine::Place;
use super::managed::await_touched;
use super::objects::launch::{Body, Launch};
use super::space::part;
use super::state::{DriverState, is_null};
use super::track::Track;
use crate::sys::driver::Answer;
use crate::sys::mapping::Span;
use divvy_driver_api::types::CUresult;

impl Launch {
    /// Runs the kernel for its time, behind what the memory it touches takes to come, and then makes its
    /// results visible.
    pub(crate) fn run(&self, driver: &DriverState, track: &mut Track<'_>, place: Place) -> Answer {
        let touched = self.touched();
        {
            let state = driver.lock();
            let device = state.contexts.get(place.context).map_or(0, |context| context.device);
            if !touched.iter().all(|(at, bytes)| state.space.is_reached_by(device, *at, *bytes)) {
                return Err(ILLEGAL_ADDRESS);
            }
        }
        await_touched(driver, track, place, &touched)?;
        let (load, amount) = self.load();
        let mut result = Ok(());
        track.run(place, load, amount, &mut || result = self.compute(driver))?;
        result
    }

    fn compute(&self, driver: &DriverState) -> Answer {
        let n = |index| self.number(index);
        match self.body {
            Body::Nothing | Body::Spin => Ok(()),
            Body::Trap => Err(CUresult::CUDA_ERROR_LAUNCH_FAILED),
            Body::VectorAdd | Body::Add32 => {
                let bytes = n(3).saturating_mul(4);
                let (left, right) = (read(driver, n(1), bytes)?, read(driver, n(2), bytes)?);
                let is_float = self.body == Body::VectorAdd;
                let add = |a: [u8; 4], b: [u8; 4]| match is_float {
                    true => (f32::from_le_bytes(a) + f32::from_le_bytes(b)).to_le_bytes(),
                    false => {
                        u32::from_le_bytes(a).wrapping_add(u32::from_le_bytes(b)).to_le_bytes()
                    }
                };
                let sums = words(&left).zip(words(&right)).flat_map(|(a, b)| add(a, b)).collect();
                write(driver, n(0), bytes, sums)
            }
            Body::Fill => {
                let bytes = n(2).saturating_mul(4);
                let value = self.arguments.get(1).cloned().unwrap_or_default();
                fill(driver, n(0), bytes, &value)
            }
            Body::Checksum => {
                let data = read(driver, n(0), n(1).saturating_mul(4))?;
                let sum = words(&data)
                    .fold(0_u64, |sum, word| sum.wrapping_add(u64::from(u32::from_le_bytes(word))));
                write(driver, n(2), 8, sum.to_le_bytes().to_vec())
            }
            Body::MatrixProduct => matrix_product(driver, n(0), n(1), n(2), n(3)),
            Body::FixedWork => add_to(driver, n(1), n(0)),
            Body::ShareWork => add_to(driver, n(0), 1),
            Body::CountDown => count_down(driver, n(0), n(1), n(2)),
            Body::Deep if n(0) == 0 => Ok(()),
            Body::Deep => write(driver, n(0), 4, 1_u32.to_le_bytes().to_vec()),
        }
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = [u8; 4]> + '_ {
    bytes.chunks_exact(4).map(|chunk| [chunk[0], chunk[1], chunk[2], chunk[3]])
}

/// Visits the mapped runs of a device range, in order.
fn visit(driver: &DriverState, at: u64, length: u64, mut work: impl FnMut(&Span)) -> Answer {
    let pieces = driver.lock().space.device_pieces(at, length)?;
    let (mut at, mut left) = (at, length);
    while left > 0 {
        let (span, found) = part(&pieces, at, left).ok_or(ILLEGAL_ADDRESS)?;
        if let Some(span) = span {
            work(&span);
        }
        (at, left) = (at + found, left - found);
    }
    Ok(())
}

fn read(driver: &DriverState, at: u64, length: u64) -> Answer<Vec<u8>> {
    let mut data = Vec::new();
    visit(driver, at, length, |span| data.extend(span.read()))?;
    Ok(data)
}

fn write(driver: &DriverState, at: u64, length: u64, data: Vec<u8>) -> Answer {
    let mut rest = data.as_slice();
    visit(driver, at, length, |span| {
        let (now, later) = rest.split_at(span.bytes().min(rest.len()));
        span.write(now);
        rest = later;
    })
}

/// Adds to a counter of 64 bits, if there is one, in one step: kernels of other streams add as well.
fn add_to(driver: &DriverState, counter: u64, more: u64) -> Answer {
    if counter == 0 {
        return Ok(());
    }
    visit(driver, counter, 8, |span| span.add(more))
}

fn count_down(driver: &DriverState, condition: u64, left: u64, less: u64) -> Answer {
    let now = words(&read(driver, left, 4)?).next().map_or(0, u32::from_le_bytes);
    let now = now.wrapping_sub(u32::try_from(less).unwrap_or(0));
    write(driver, left, 4, now.to_le_bytes().to_vec())?;
    super::conditional::set(&driver.lock(), condition, now)
}

fn fill(driver: &DriverState, at: u64, length: u64, value: &[u8]) -> Answer {
    visit(driver, at, length, |span| span.fill(value))
}

fn matrix_product(driver: &DriverState, to: u64, left: u64, right: u64, n: u64) -> Answer {
    let bytes = n.saturating_mul(n).saturating_mul(4);
    let floats = |data: Vec<u8>| words(&data).map(f32::from_le_bytes).collect::<Vec<f32>>();
    let (left, right) = (floats(read(driver, left, bytes)?), floats(read(driver, right, bytes)?));
    let size = usize::try_from(n).map_err(|_| ILLEGAL_ADDRESS)?;
    let mut product = vec![0_f32; if is_null() { 0 } else { size * size }];
    if !product.is_empty() {
        for row in 0..size {
            for inner in 0..size {
                let factor = left[row * size + inner];
                let source = &right[inner * size..(inner + 1) * size];
                let target = &mut product[row * size..(row + 1) * size];
                target.iter_mut().zip(source).for_each(|(sum, value)| *sum += factor * value);
            }
        }
    }
    write(driver, to, bytes, product.into_iter().flat_map(f32::to_le_bytes).collect())
}
