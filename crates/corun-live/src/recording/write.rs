//! Writing a recording, a line a look.

use std::collections::BTreeMap;
use std::io::{self, Write};

use corun_machine::CpuSet;
use serde::Serialize;

use super::VERSION;
use super::line::{HeaderLine, LookLine, ProgramLine, ThreadLine, kept};
use crate::{Host, Reading, Round, TaskFacts};

/// Writes what a host sees, look by look.
#[derive(Debug)]
pub struct Recorder<W> {
    out: W,
    online: Option<CpuSet>,
    /// Programs that are written down.
    programs: usize,
    /// By the thread's number: what was written down of it.
    known: BTreeMap<u32, (TaskFacts, Reading)>,
    looks: u64,
    bytes: u64,
}

impl<W: Write> Recorder<W> {
    /// Begins a recording of what a host sees, which looks so often.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(out: W, host: &Host, interval_s: f64) -> io::Result<Self> {
        let known = BTreeMap::new();
        let mut own = Self { out, online: None, programs: 0, known, looks: 0, bytes: 0 };
        own.line(&HeaderLine {
            corun_live_recording: VERSION,
            written_by: concat!("corun ", env!("CARGO_PKG_VERSION")).to_owned(),
            interval_s,
            counters: host.counters().into_iter().map(Into::into).collect(),
            profiles: host.knows_profiles(),
            machine: host.machine().spec().clone(),
        })?;
        Ok(own)
    }

    /// Writes what the host's last look found; whole lines reach the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn look(&mut self, host: &Host, round: &Round) -> io::Result<()> {
        let seen: BTreeMap<u32, _> =
            host.seen().map(|one| (one.followed.facts.task.tid, one)).collect();
        let mut line =
            LookLine { at_ns: round.now.0, unread: round.unread.clone(), ..LookLine::default() };
        if self.online.as_ref() != Some(host.online()) {
            self.online = Some(host.online().clone());
            line.online.clone_from(&self.online);
        }
        let targets = host.targets();
        line.programs.extend(targets.iter().skip(self.programs).map(|target| ProgramLine {
            name: target.name.to_string(),
            profile: target.profile.clone(),
            important: target.important,
        }));
        self.programs = targets.len();
        self.known.retain(|tid, (facts, _)| {
            let stays = seen.get(tid).is_some_and(|one| one.followed.facts.task == facts.task);
            if !stays {
                line.gone.push(*tid);
            }
            stays
        });
        for (tid, one) in seen {
            let facts = &one.followed.facts;
            let before = self.known.get(&tid);
            let mut reading = kept(one.reading);
            if let Some((_, earlier)) = before {
                // A stored profile that is not found for once is not forgotten.
                reading.solo = reading.solo.or(earlier.solo);
                reading.by_ways = reading.by_ways.or_else(|| earlier.by_ways.clone());
            }
            if before.is_some_and(|(known, earlier)| known == facts && *earlier == reading) {
                continue;
            }
            let before = before.map(|(facts, reading)| (facts, reading));
            line.threads.push(ThreadLine::new(facts, one.followed.target, &reading, before));
            self.known.insert(tid, (facts.clone(), reading));
        }
        self.looks += 1;
        self.line(&line)
    }

    /// Looks written so far.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.bytes += text.len() as u64;
        // At once: a reader, or a killed writer, finds whole lines.
        self.out.write_all(&text)?;
        self.out.flush()
    }
}
