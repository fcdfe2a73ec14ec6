//! Load for a message broker: producers and consumers over STOMP 1.2 or AMQP 1.0, a thread each, and a report about the messages.
//!
//! It shares the machine with the broker, so it must cost little: a frame is encoded once and patched, a batch
//! is sent in one write, received frames are read in place.  Standard library only.

mod amqp;
mod link;
mod machine;
mod options;
mod report;
mod run;
mod stomp;
mod tally;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        print!("{}", options::USAGE);
        return ExitCode::SUCCESS;
    }
    match options::Options::read(arguments.into_iter()) {
        Err(reason) => {
            eprintln!("penstock-load: {reason}; --help lists the options");
            ExitCode::from(2)
        }
        Ok(chosen) => {
            let outcome = run::run(&chosen);
            println!("{}", report::json(&chosen, &outcome));
            ExitCode::from(u8::from(!outcome.is_clean()))
        }
    }
}
