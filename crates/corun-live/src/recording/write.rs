//! Writing a recording, a line a look.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use corun_machine::CpuSet;
use corun_policy::WaysCurve;
use serde::Serialize;

use super::VERSION;
use super::line::{HeaderLine, LookLine, ProgramLine, ThreadLine, kept, kept_curve};
use crate::{Host, Reading, Round, TaskFacts};

/// Writes what a host sees, look by look.
pub struct Recorder<'a> {
    /// Not a parameter of the type: what writes the lines is then built with this crate.
    out: Box<dyn Write + 'a>,
    online: Option<CpuSet>,
    /// Programs that are written down.
    programs: usize,
    /// By the thread's number: what was written down of it.
    known: BTreeMap<u32, Written>,
    looks: u64,
    bytes: u64,
}

/// What was written down of a thread.
#[derive(Debug)]
struct Written {
    facts: TaskFacts,
    reading: Reading,
    /// The curve as it was read: while it is this one, it need not be rounded and compared anew.
    curve: Option<Arc<WaysCurve>>,
}

impl Written {
    /// The curve to keep of a reading, after what was written before.
    fn curve(before: Option<&Self>, reading: &Reading) -> Option<Arc<WaysCurve>> {
        let earlier = before.and_then(|before| before.reading.by_ways.clone());
        // A stored profile that is not found for once is not forgotten.
        let Some(now) = &reading.by_ways else { return earlier };
        let known = before.and_then(|before| before.curve.as_ref());
        if known.is_some_and(|known| Arc::ptr_eq(known, now)) { earlier } else { kept_curve(now) }
    }
}

impl<'a> Recorder<'a> {
    /// Begins a recording of what a host sees, which looks so often.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(out: impl Write + 'a, host: &Host, interval_s: f64) -> io::Result<Self> {
        let known = BTreeMap::new();
        let out = Box::new(out);
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
        self.known.retain(|tid, written| {
            let own = written.facts.task;
            let stays = seen.get(tid).is_some_and(|one| one.followed.facts.task == own);
            if !stays {
                line.gone.push(*tid);
            }
            stays
        });
        for (tid, one) in seen {
            let facts = &one.followed.facts;
            let before = self.known.get(&tid);
            let mut reading = kept(one.reading, Written::curve(before, one.reading));
            reading.solo = reading.solo.or(before.and_then(|before| before.reading.solo));
            if before.is_some_and(|before| before.facts == *facts && before.reading == reading) {
                continue;
            }
            let pair = before.map(|before| (&before.facts, &before.reading));
            line.threads.push(ThreadLine::new(facts, one.followed.target, &reading, pair));
            let curve = one.reading.by_ways.clone();
            self.known.insert(tid, Written { facts: facts.clone(), reading, curve });
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
