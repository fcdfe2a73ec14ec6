//! The report, as one JSON object.

use crate::options::Options;
use crate::run::Outcome;
use crate::tally::Histogram;

fn text(value: &str) -> String {
    let mut out = String::from("\"");
    for letter in value.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            letter if letter.is_control() => out.push_str(&format!("\\u{:04x}", letter as u32)),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

fn quantiles(histogram: &Histogram) -> String {
    let at = |share: f64| format!("{:.1}", histogram.quantile_us(share));
    format!("{{\"p50\":{},\"p90\":{},\"p99\":{},\"p999\":{},\"max\":{}}}", at(0.5), at(0.9), at(0.99), at(0.999), at(1.0))
}

fn list(values: &[u64]) -> String {
    format!("[{}]", values.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
}

fn rate(count: u64, seconds: f64) -> u64 {
    if seconds > 0.0 {
        (count as f64 / seconds).round() as u64
    } else {
        0
    }
}

pub fn json(options: &Options, outcome: &Outcome) -> String {
    let received = &outcome.received;
    let mut fields = vec![
        format!("\"sent\":{}", outcome.sent),
        format!("\"confirmed\":{}", outcome.confirmed),
        format!("\"received\":{}", received.count),
        format!("\"expected\":{}", outcome.expected),
        format!("\"produced_per_s\":{}", rate(outcome.sent, outcome.produce_s)),
        format!("\"consumed_per_s\":{}", rate(received.count, outcome.consume_s)),
        format!("\"produce_s\":{:.6}", outcome.produce_s),
        format!("\"consume_s\":{:.6}", outcome.consume_s),
        format!("\"lost\":{}", outcome.lost),
        format!("\"duplicates\":{}", received.duplicates),
        format!("\"out_of_order\":{}", received.out_of_order),
        format!("\"foreign\":{}", received.foreign),
        format!("\"loadgen_cpu_s\":{:.2}", outcome.loadgen_cpu_s),
        format!("\"machine_busy_s\":{:.2}", outcome.machine_busy_s),
        format!("\"machine_stolen_s\":{:.2}", outcome.machine_stolen_s),
        format!("\"errors\":[{}]", outcome.errors.iter().map(|one| text(one)).collect::<Vec<_>>().join(",")),
    ];
    if options.watched.is_some() {
        fields.push(format!("\"watched_cpu_s\":{:.2}", outcome.watched_cpu_s));
    }
    if !received.latency.is_empty() {
        fields.push(format!("\"latency_us\":{}", quantiles(&received.latency)));
    }
    if !outcome.confirm.is_empty() {
        fields.push(format!("\"confirm_us\":{}", quantiles(&outcome.confirm)));
    }
    if options.has_timeline {
        fields.push(format!("\"produced_each_s\":{}", list(&outcome.produced_each_s)));
        fields.push(format!("\"consumed_each_s\":{}", list(&received.each_s)));
    }
    format!("{{{}}}", fields.join(","))
}
