// agreed_work.rs SECONDS: optimised Rust for walk_agreement.c: closures, iterators, trait objects, panics, threads.
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

extern "C" {
    fn clock() -> i64; // microseconds of CPU time
}

fn cpu_seconds() -> f64 {
    unsafe { clock() as f64 / 1e6 }
}

trait Shape {
    fn area(&self) -> f64;
}
struct Square(f64);
struct Scaled(Box<dyn Shape>, String);
impl Shape for Square {
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}
impl Shape for Scaled {
    fn area(&self) -> f64 {
        2.0 * self.0.area() + self.1.len() as f64
    }
}

fn objects(depth: usize) -> f64 {
    let mut shape: Box<dyn Shape> = Box::new(Square(3.0));
    for i in 0..depth {
        shape = Box::new(Scaled(shape, "x".repeat(i)));
    }
    shape.area()
}

struct AtEnd<'a>(&'a std::cell::Cell<usize>, String);
impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + self.1.len());
    }
}

#[inline(never)]
fn panics(depth: usize, count: &std::cell::Cell<usize>) -> usize {
    let _guard = AtEnd(count, "y".repeat(depth + 3));
    if depth == 0 {
        std::panic::panic_any(7usize);
    }
    panics(depth - 1, count) + 1
}

fn caught() -> usize {
    let count = std::cell::Cell::new(0);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panics(10, &count)));
    assert!(result.is_err());
    count.get()
}

fn iterators() -> usize {
    let mut words: Vec<String> = (0..300).map(|i| format!("{:x}-{}", i * 7919 % 1000, i)).collect();
    words.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| b.cmp(a)));
    let mut tree = BTreeMap::new();
    for word in &words {
        *tree.entry(word.len()).or_insert(0usize) += word.bytes().filter(|b| b.is_ascii_digit()).count();
    }
    let map: HashMap<&str, usize> = words.iter().map(|w| (w.as_str(), w.len())).collect();
    words.chunks(7).flat_map(|c| c.iter().zip(1..)).filter_map(|(w, n)| map.get(w.as_str()).map(|l| l * n)).sum::<usize>()
        + tree.len()
}

fn text() -> usize {
    let mut out = String::new();
    for i in 0..60 {
        write!(out, "{:>8.3} {:?} ", f64::from(i) * 0.37, Some(i)).unwrap();
    }
    out.split_whitespace().filter_map(|w| w.parse::<f64>().ok()).count()
}

fn work() -> usize {
    let calls: Vec<Box<dyn Fn(usize) -> usize>> = vec![
        Box::new(|n| objects(n) as usize % 1000),
        Box::new(|_| caught()),
        Box::new(move |n| iterators() + n),
        Box::new(|_| text()),
    ];
    (0..20).map(|i| calls[i % calls.len()](i)).fold(0, |a, b| a.wrapping_add(b))
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1.0f64);
    let end = cpu_seconds() + seconds;
    let mut sum = 0usize;
    while cpu_seconds() < end {
        let other = std::thread::spawn(|| (0..5).map(|_| work()).max());
        sum = sum.wrapping_add(work());
        sum = sum.wrapping_add(other.join().unwrap().unwrap());
    }
    println!("{}", u8::from(sum > 0));
}
