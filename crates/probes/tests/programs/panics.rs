//! Leaves watched functions by panics. `panics N`.

use std::hint::black_box;
use std::panic;

#[inline(never)]
#[unsafe(no_mangle)]
fn throws(n: u32) -> u32 {
    assert!(black_box(n) % 2 == 0, "odd");
    black_box(n + 1)
}

#[inline(never)]
#[unsafe(no_mangle)]
fn returns(n: u32) -> bool {
    black_box(panic::catch_unwind(|| throws(n)).is_err())
}

fn main() {
    panic::set_hook(Box::new(|_| ()));
    let n: u32 = std::env::args().nth(1).unwrap().parse().unwrap();
    let caught = (0..n).filter(|&n| returns(n)).count();
    assert_eq!(caught as u32, n / 2);
}
