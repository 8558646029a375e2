//! `corun stand-in`: keeps CPUs busy in the place of a program of which there is only a profile.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use crate::cli::StandInArgs;
use crate::failure::Outcome;

/// Runs until it is ended.
pub(super) fn run(arguments: &StandInArgs) -> Outcome<String> {
    let wait = |ms: f64| Duration::from_secs_f64(ms / 1000.0);
    let io = arguments.cpu_ms.zip(arguments.wait_ms).map(|(cpu, idle)| (wait(cpu), wait(idle)));
    thread::scope(|scope| {
        for _ in 1..arguments.threads {
            scope.spawn(|| busy(io));
        }
        busy(io)
    })
}

fn busy(io: Option<(Duration, Duration)>) -> ! {
    let mut state = 1_u64;
    loop {
        let since = Instant::now();
        while io.is_none_or(|(cpu, _)| since.elapsed() < cpu) {
            for _ in 0..1_000 {
                // Xorshift: registers alone, so that no memory is waited for.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
            }
            black_box(state);
        }
        if let Some((_, idle)) = io {
            thread::sleep(idle);
        }
    }
}
