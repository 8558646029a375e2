//! Writing a recording, a line a sample.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use corun_linux::TaskFacts;
use corun_machine::CpuSet;
use corun_policy::{ThreadState, WaysCurve};
use serde::Serialize;

use super::line::{HeaderLine, ProgramLine, SampleLine, ThreadLine, kept, kept_curve};
use super::{RecordedFigures, VERSION};
use crate::{Host, SampledThread, Tick};

/// Writes what a host sees, sample by sample.
pub struct RecordingWriter<'a> {
    /// Not a parameter of the type: what writes the lines is then built with this crate.
    out: Box<dyn Write + 'a>,
    online: Option<CpuSet>,
    /// Programs that are written down.
    programs: usize,
    /// By the thread's number: what was written down of it.
    known: BTreeMap<u32, Written>,
    samples: u64,
    bytes: u64,
}

/// What was written down of a thread.
#[derive(Debug)]
struct Written {
    facts: TaskFacts,
    state: ThreadState,
    figures: RecordedFigures,
    /// The curve as it was read: while it is this one, it need not be rounded and compared anew.
    curve: Option<Arc<WaysCurve>>,
}

impl Written {
    /// The curve to keep of a thread, after what was written before.
    fn curve(before: Option<&Self>, now: Option<&Arc<WaysCurve>>) -> Option<Arc<WaysCurve>> {
        let earlier = before.and_then(|before| before.figures.by_ways.clone());
        // A stored profile that is not found for once is not forgotten.
        let Some(now) = now else { return earlier };
        let known = before.and_then(|before| before.curve.as_ref());
        if known.is_some_and(|known| Arc::ptr_eq(known, now)) { earlier } else { kept_curve(now) }
    }
}

impl<'a> RecordingWriter<'a> {
    /// Begins a recording of what a host sees, of so many seconds a sample.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(out: impl Write + 'a, host: &Host, interval_s: f64) -> io::Result<Self> {
        let known = BTreeMap::new();
        let out = Box::new(out);
        let mut own = Self { out, online: None, programs: 0, known, samples: 0, bytes: 0 };
        own.line(&HeaderLine {
            corun_live_recording: VERSION,
            written_by: concat!("corun ", env!("CARGO_PKG_VERSION")).to_owned(),
            interval_s,
            counters: host.counters().into_iter().collect(),
            profiles: host.knows_profiles(),
            machine: host.machine().spec().clone(),
        })?;
        Ok(own)
    }

    /// Writes what the host's last tick found; whole lines reach the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn sample(&mut self, host: &Host, tick: &Tick) -> io::Result<()> {
        let now: BTreeMap<u32, SampledThread<'_>> =
            host.threads().map(|one| (one.thread.task().tid, one)).collect();
        let mut line =
            SampleLine { at_ns: tick.now.0, unread: tick.unread.clone(), ..SampleLine::default() };
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
            let stays = now.get(tid).is_some_and(|one| one.thread.task() == own);
            if !stays {
                line.gone.push(*tid);
            }
            stays
        });
        for (tid, one) in now {
            let (facts, state) = (&one.thread.facts, one.view.state);
            let before = self.known.get(&tid);
            let curve = one.view.by_ways.as_ref();
            let figures = kept(&one, Written::curve(before, curve));
            let is_as_before = |before: &Written| {
                before.facts == *facts && before.state == state && before.figures == figures
            };
            if before.is_some_and(is_as_before) {
                continue;
            }
            let pair = before.map(|before| (&before.facts, &before.figures));
            line.threads.push(ThreadLine::new(facts, state, one.thread.target, &figures, pair));
            let curve = curve.cloned();
            self.known.insert(tid, Written { facts: facts.clone(), state, figures, curve });
        }
        self.samples += 1;
        self.line(&line)
    }

    /// Samples written so far.
    pub fn samples(&self) -> u64 {
        self.samples
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
