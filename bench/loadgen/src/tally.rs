//! The head of each body, and the counts from it: latencies, losses, repetitions, order.

use std::time::{SystemTime, UNIX_EPOCH};

/// Octets at the start of each body: when it was sent (8), its sequence number (8), its producer (4), MARK (4).
pub const HEAD: usize = 24;
const MARK: u32 = 0x5053_544b;

pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

pub fn write_head(body: &mut [u8], sent_ns: u64, sequence: u64, producer: u32) {
    body[0..8].copy_from_slice(&sent_ns.to_be_bytes());
    body[8..16].copy_from_slice(&sequence.to_be_bytes());
    body[16..20].copy_from_slice(&producer.to_be_bytes());
    body[20..24].copy_from_slice(&MARK.to_be_bytes());
}

fn u64_at(octets: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(octets[at..at + 8].try_into().expect("eight octets"))
}

fn u32_at(octets: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(octets[at..at + 4].try_into().expect("four octets"))
}

const STEPS: u64 = 64; // buckets per octave: the error of a value is below 2 %

/// Counts of durations in ns.
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; (64 * STEPS) as usize], total: 0 }
    }

    pub fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.total += 1;
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// Return the duration that `share` of all stay below, in microseconds.
    pub fn quantile_us(&self, share: f64) -> f64 {
        let wanted = (self.total as f64 * share).ceil().max(1.0) as u64;
        let mut below = 0;
        for (at, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= wanted {
                return middle_ns(at) as f64 / 1000.0;
            }
        }
        0.0
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}

fn bucket(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let octave = 63 - ns.leading_zeros() as u64; // at least 6
    let step = (ns >> (octave - 6)) - STEPS;
    ((octave - 5) * STEPS + step) as usize
}

fn middle_ns(bucket: usize) -> u64 {
    let (octave, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    if octave == 0 {
        return step;
    }
    let width = 1u64 << (octave - 1);
    (STEPS + step) * width + width / 2
}

/// The messages that one consumer received, by producer.
pub struct Received {
    size: usize,
    seen: Vec<Vec<u64>>, // a bit per sequence number
    last: Vec<u64>,
    pub count: u64,
    pub duplicates: u64,
    pub out_of_order: u64,
    pub foreign: u64,
    pub latency: Histogram,
    pub last_ns: u64,
    pub each_s: Vec<u64>,
    start_ns: u64,
}

impl Received {
    pub fn new(size: usize, start_ns: u64) -> Received {
        Received {
            size,
            seen: Vec::new(),
            last: Vec::new(),
            count: 0,
            duplicates: 0,
            out_of_order: 0,
            foreign: 0,
            latency: Histogram::new(),
            last_ns: 0,
            each_s: Vec::new(),
            start_ns,
        }
    }

    /// Count one body from a read at `read_ns`.
    pub fn take(&mut self, body: &[u8], read_ns: u64) {
        if body.len() != self.size || u32_at(body, 20) != MARK {
            self.foreign += 1;
            return;
        }
        let (sent_ns, sequence, producer) = (u64_at(body, 0), u64_at(body, 8), u32_at(body, 16) as usize);
        while self.seen.len() <= producer {
            self.seen.push(Vec::new());
            self.last.push(0);
        }
        let (word, bit) = ((sequence / 64) as usize, 1u64 << (sequence % 64));
        let seen = &mut self.seen[producer];
        if seen.len() <= word {
            seen.resize(word + 1 + word / 2, 0);
        }
        self.count += 1;
        if seen[word] & bit != 0 {
            self.duplicates += 1;
        } else {
            seen[word] |= bit;
            if sequence + 1 < self.last[producer] {
                self.out_of_order += 1;
            }
            self.last[producer] = self.last[producer].max(sequence + 1);
        }
        self.latency.add(read_ns.saturating_sub(sent_ns));
        self.last_ns = read_ns;
        let second = (read_ns.saturating_sub(self.start_ns) / 1_000_000_000) as usize;
        if self.each_s.len() <= second {
            self.each_s.resize(second + 1, 0);
        }
        self.each_s[second] += 1;
    }

    pub fn distinct(&self) -> u64 {
        self.seen.iter().flatten().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Merge another consumer of the same queue into this one: messages that both have are repetitions.
    pub fn merge(&mut self, other: &Received, shares_messages: bool) {
        for (producer, words) in other.seen.iter().enumerate() {
            while self.seen.len() <= producer {
                self.seen.push(Vec::new());
                self.last.push(0);
            }
            let mine = &mut self.seen[producer];
            if mine.len() < words.len() {
                mine.resize(words.len(), 0);
            }
            for (have, word) in mine.iter_mut().zip(words) {
                if shares_messages {
                    self.duplicates += u64::from((*have & word).count_ones());
                }
                *have |= word;
            }
        }
        self.count += other.count;
        self.duplicates += other.duplicates;
        self.out_of_order += other.out_of_order;
        self.foreign += other.foreign;
        self.latency.merge(&other.latency);
        self.last_ns = self.last_ns.max(other.last_ns);
        if self.each_s.len() < other.each_s.len() {
            self.each_s.resize(other.each_s.len(), 0);
        }
        for (mine, theirs) in self.each_s.iter_mut().zip(&other.each_s) {
            *mine += theirs;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_within_two_percent() {
        let mut histogram = Histogram::new();
        for us in 1..=100_000u64 {
            histogram.add(us * 1000);
        }
        for (share, want) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.001, 100.0)] {
            let found = histogram.quantile_us(share);
            assert!((found - want).abs() <= want * 0.02, "{share}: {found}");
        }
    }

    #[test]
    fn what_was_repeated_swapped_or_is_foreign_is_counted() {
        let mut received = Received::new(HEAD, 0);
        let mut body = [0u8; HEAD];
        for sequence in [0u64, 1, 3, 2, 2] {
            write_head(&mut body, 0, sequence, 0);
            received.take(&body, 1);
        }
        received.take(&[0u8; HEAD], 1);
        assert_eq!((received.count, received.distinct()), (5, 4));
        assert_eq!((received.duplicates, received.out_of_order, received.foreign), (1, 1, 1));
        let mut other = Received::new(HEAD, 0);
        write_head(&mut body, 0, 3, 0);
        other.take(&body, 1);
        received.merge(&other, true);
        assert_eq!((received.distinct(), received.duplicates), (4, 2));
    }
}
