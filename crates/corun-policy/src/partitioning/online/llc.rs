//! One LLC of an online policy: who is on it, who is being sampled, what was asked for.

use std::fmt::Write as _;

use super::sweep::Sweep;
use super::window::Window;
use super::{Cache, LOOK, Scheme, Seen, WindowPace};
use crate::partitioning::Partition;
use crate::partitioning::members::Members;
use crate::{CachePart, Nanoseconds, ProcessId, ThreadId, View};

/// A program on the LLC.
pub(super) struct Program<K> {
    process: ProcessId,
    name: String,
    threads: Vec<ThreadId>,
    window: Window,
    /// Windows of warm-up that are left.
    warming: u32,
    /// Is it to be sampled? The number orders those who wait.
    waits: Option<u64>,
    known: K,
}

/// A program's turn in the sampling partition.
struct Turn {
    process: ProcessId,
    sweep: Sweep,
    /// Windows to leave out before the next sample.
    settling: u32,
    /// Bytes that its ways have more room for than it held when it got them, less what it missed since; and windows that
    /// may be left out for them.
    filling: (f64, u32),
    /// When its last window ended, and how many instructions it has done since.
    since: Nanoseconds,
}

pub(super) struct Llc<K> {
    programs: Vec<Program<K>>,
    turn: Option<Turn>,
    /// A number for the next that waits.
    next_wait: u64,
    decided_at: Option<Nanoseconds>,
    /// Who is here changed, or a turn ended, since the last decision.
    stale: bool,
    asked: Vec<CachePart>,
    /// What was asked for last is not in force.
    is_refused: bool,
    partition: Partition,
}

impl<K> Default for Llc<K> {
    fn default() -> Self {
        Self {
            programs: Vec::new(),
            turn: None,
            next_wait: 0,
            decided_at: None,
            stale: true,
            asked: Vec::new(),
            is_refused: false,
            partition: Partition::default(),
        }
    }
}

impl<K: Default + Clone> Llc<K> {
    pub(super) fn is_sampling(&self) -> bool {
        self.turn.is_some()
    }

    /// Gives up the programs that are here no more.
    pub(super) fn drop_absent(&mut self, members: &Members) -> Vec<Program<K>> {
        let is_here =
            |program: &Program<K>| members.iter().any(|(process, _)| *process == program.process);
        let (stay, gone): (Vec<_>, Vec<_>) = self.programs.drain(..).partition(is_here);
        self.programs = stay;
        self.stale |= !gone.is_empty();
        let sampled = self.turn.as_ref().map(|turn| turn.process);
        if gone.iter().any(|program| Some(program.process) == sampled) {
            self.turn = None;
        }
        gone
    }

    /// Takes over who is here, in this order; `gone` are programs that left other LLCs, `ended` what is remembered of
    /// programs by their names.
    pub(super) fn take_over(
        &mut self,
        members: Members,
        gone: &mut Vec<Program<K>>,
        (ended, pace): (&[(String, K)], &WindowPace),
        view: &View<'_>,
    ) {
        let mut programs = Vec::with_capacity(members.len());
        for (process, threads) in members {
            let mut program = match take(&mut self.programs, process) {
                Some(program) => program,
                None => {
                    self.stale = true;
                    let moved = take(gone, process).map(|program| self.welcome(program));
                    moved.unwrap_or_else(|| {
                        let name = name(&threads, view);
                        let known = ended.iter().find(|(one, _)| one == name);
                        let known = known.map(|(_, known)| known.clone()).unwrap_or_default();
                        Program::new(process, name, known, pace)
                    })
                }
            };
            self.stale |= program.threads != threads;
            let name = name(&threads, view);
            if program.name != name {
                program.name = name.to_owned();
            }
            program.threads = threads;
            programs.push(program);
        }
        self.programs = programs;
    }

    /// A program from another LLC: it is known, but its window is not of here.
    fn welcome(&mut self, mut program: Program<K>) -> Program<K> {
        program.window.restart();
        if program.waits.is_some() {
            program.waits = Some(self.next_wait);
            self.next_wait += 1;
        }
        program
    }

    /// Reads the counters; how long until the next reading.
    pub(super) fn look<S: Scheme<Known = K>>(
        &mut self,
        scheme: &mut S,
        cache: &Cache,
        pace: &WindowPace,
        view: &View<'_>,
    ) -> Nanoseconds {
        for program in &mut self.programs {
            let threads = program.threads.iter().filter_map(|&id| view.thread(id));
            program.window.look(threads);
        }
        if self.programs.len() < 2 {
            self.turn = None;
        }
        let sampled = self.turn.as_ref().map(|turn| turn.process);
        for place in 0..self.programs.len() {
            if Some(self.programs[place].process) != sampled {
                self.watch(scheme, cache, pace, view, place);
            }
        }
        self.advance(scheme, cache, pace, view);
        if self.turn.is_none() {
            self.start_turn(scheme, cache, pace, view);
        }
        self.until_next(pace, view)
    }

    /// A program that is not being sampled. While another is, its ways are not those that it was
    /// given: such windows count as warm-up alone.
    fn watch<S: Scheme<Known = K>>(
        &mut self,
        scheme: &mut S,
        cache: &Cache,
        pace: &WindowPace,
        view: &View<'_>,
        place: usize,
    ) {
        let (held_bytes, is_held_counted) = self.held_bytes(view, place, cache);
        let is_sampling = self.turn.is_some();
        let program = &mut self.programs[place];
        if is_sampling && program.warming == 0 {
            program.window.restart();
            return;
        }
        let Some(sample) = program.window.close(pace.window) else { return };
        let seen = Seen { now: view.now, sample, held_bytes, is_held_counted };
        let wants = match program.warming {
            0 => scheme.watch(&mut program.known, &seen, cache),
            1 => scheme.warmed_up(&mut program.known, &seen, cache),
            _ => false,
        };
        program.warming = program.warming.saturating_sub(1);
        if wants && program.waits.is_none() {
            program.waits = Some(self.next_wait);
            self.next_wait += 1;
        }
    }

    /// What a program's threads hold, and whether that is counted; where it is not, all that they may hold.
    fn held_bytes(&self, view: &View<'_>, place: usize, cache: &Cache) -> (f64, bool) {
        let threads = &self.programs[place].threads;
        let held: Option<f64> =
            threads.iter().map(|&id| view.thread(id)?.llc_occupancy_bytes).sum();
        if let Some(held) = held.filter(|held| held.is_finite() && *held >= 0.0) {
            return (held, true);
        }
        let of = |part: &&CachePart| part.threads.iter().any(|id| threads.contains(id));
        let ways = self.asked.iter().find(of).map(|part| part.mask.count_ones());
        (f64::from(ways.unwrap_or(cache.ways)) * cache.way_bytes(), false)
    }

    /// Brings the program whose turn it is a step further.
    fn advance<S: Scheme<Known = K>>(
        &mut self,
        scheme: &mut S,
        cache: &Cache,
        pace: &WindowPace,
        view: &View<'_>,
    ) {
        let now = view.now;
        let Some(turn) = &mut self.turn else { return };
        let Some(place) = self.programs.iter().position(|one| one.process == turn.process) else {
            self.turn = None;
            return;
        };
        let program = &mut self.programs[place];
        let Some(sample) = program.window.close(pace.sampling_window) else {
            if now.0.saturating_sub(turn.since.0) >= pace.timeout.0 {
                // It sleeps, or nothing is counted: its turn comes again when it runs.
                program.warming = 1;
                self.turn = None;
                self.stale = true;
            }
            return;
        };
        turn.since = now;
        turn.filling.0 -= sample.llc_mpki * 1e-3 * pace.sampling_window * crate::REQUEST_BYTES;
        if turn.settling > 0 {
            turn.settling -= 1;
            return;
        }
        if turn.filling.0 > 0.0 && turn.filling.1 > 0 {
            turn.filling.1 -= 1;
            return;
        }
        turn.sweep.note(sample);
        let known: Vec<&K> = self.programs.iter().map(|program| &program.known).collect();
        let Some(ways) = scheme.next_ways(&known, place, turn.sweep.samples(), cache) else {
            self.end_turn(scheme, place, cache, now);
            return;
        };
        let more = f64::from(ways) - f64::from(turn.sweep.ways());
        turn.sweep.go_to(ways);
        turn.settling = pace.settling;
        turn.filling = (more * cache.way_bytes(), scheme.most_filling_windows());
    }

    fn end_turn<S: Scheme<Known = K>>(
        &mut self,
        scheme: &mut S,
        place: usize,
        cache: &Cache,
        now: Nanoseconds,
    ) {
        if let Some(turn) = self.turn.take() {
            scheme.sampled(&mut self.programs[place].known, turn.sweep.samples(), cache, now);
        }
        self.stale = true;
        // What it did in its sampling partition says nothing of the one it gets.
        self.programs.iter_mut().for_each(|program| program.window.restart());
    }

    /// The turn of the program that waits longest, of those that there is something to try with.
    fn start_turn<S: Scheme<Known = K>>(
        &mut self,
        scheme: &mut S,
        cache: &Cache,
        pace: &WindowPace,
        view: &View<'_>,
    ) {
        while self.programs.len() >= 2 && self.turn.is_none() {
            let waiting =
                (0..self.programs.len()).filter(|&one| self.programs[one].waits.is_some());
            let Some(place) = waiting.min_by_key(|&one| self.programs[one].waits) else { return };
            self.programs[place].waits = None;
            let known: Vec<&K> = self.programs.iter().map(|program| &program.known).collect();
            let Some(ways) = scheme.next_ways(&known, place, &[], cache) else {
                self.stale = true;
                continue;
            };
            let (held, _) = self.held_bytes(view, place, cache);
            let program = &mut self.programs[place];
            program.window.restart();
            self.turn = Some(Turn {
                process: program.process,
                sweep: Sweep::new(cache, ways),
                settling: pace.settling,
                filling: (
                    f64::from(ways) * cache.way_bytes() - held,
                    scheme.most_filling_windows(),
                ),
                since: view.now,
            });
        }
    }

    /// Until the sampled program's window is over, by its present speed.
    fn until_next(&self, pace: &WindowPace, view: &View<'_>) -> Nanoseconds {
        let Some(turn) = &self.turn else { return LOOK };
        let Some(program) = self.programs.iter().find(|one| one.process == turn.process) else {
            return LOOK;
        };
        let threads = program.threads.iter().filter_map(|&id| view.thread(id));
        let per_s: f64 = threads.filter_map(|thread| thread.rates.instructions_per_s).sum();
        let seconds = (pace.sampling_window - program.window.instructions()).max(0.0) / per_s;
        if seconds.is_finite() {
            // A little later than that, so that one more look is not needed.
            Nanoseconds::from_secs_f64(1.02 * seconds).min(LOOK)
        } else {
            LOOK
        }
    }

    /// The partition that the LLC shall have from now on, and why; none where it has it.
    pub(super) fn wish<S: Scheme<Known = K>>(
        &mut self,
        scheme: &mut S,
        cache: Option<Cache>,
        pace: &WindowPace,
        view: &View<'_>,
    ) -> Option<(Vec<CachePart>, String)> {
        let is_due = self.decided_at.is_none_or(|at| view.now.0 >= at.0 + pace.decide_every.0);
        if self.turn.is_none() && !self.stale && !is_due {
            return None;
        }
        let (parts, reason) = match (&self.turn, cache) {
            _ if self.programs.len() < 2 => (Vec::new(), self.whole("nobody to part")),
            (_, None) => (Vec::new(), self.whole("its ways are not known")),
            (Some(turn), Some(cache)) => self.for_turn(turn, &cache),
            (None, Some(cache)) => {
                self.decided_at = Some(view.now);
                self.decided(scheme, &cache)
            }
        };
        self.stale = false;
        if parts == self.asked && !self.is_refused {
            return None;
        }
        self.is_refused = false;
        self.asked.clone_from(&parts);
        Some((parts, reason))
    }

    /// What was asked for last is not in force: the LLC is taken for whole until the next decision asks again. A program
    /// that was to be sampled has no sampling partition, and its turn comes again later.
    pub(super) fn not_in_force(&mut self) {
        self.is_refused = true;
        self.asked.clear();
        if let Some(turn) = self.turn.take() {
            self.programs.iter_mut().for_each(|program| program.window.restart());
            let sampled = self.programs.iter_mut().find(|one| one.process == turn.process);
            if let Some(program) = sampled {
                program.warming = 1;
            }
        }
    }

    fn whole(&self, why: &str) -> String {
        if self.programs.is_empty() {
            return " whole: nobody is on it".to_owned();
        }
        let names: Vec<&str> = self.programs.iter().map(|one| one.name.as_str()).collect();
        format!(" whole for {}: {why}", names.join(", "))
    }

    /// The sampling partition and its complement.
    fn for_turn(&self, turn: &Turn, cache: &Cache) -> (Vec<CachePart>, String) {
        let [mask, rest] = turn.sweep.masks();
        let mut parts = [mask, rest].map(|mask| CachePart { mask, threads: Vec::new() });
        let mut sampled = "";
        for program in &self.programs {
            let is_sampled = program.process == turn.process;
            if is_sampled {
                sampled = &program.name;
            }
            parts[usize::from(!is_sampled)].threads.extend_from_slice(&program.threads);
        }
        let (ways, all) = (turn.sweep.ways(), cache.ways);
        let reason =
            format!(": sampling {sampled} with {ways} of {all} ways, others share the rest");
        (parts.into(), reason)
    }

    fn decided<S: Scheme<Known = K>>(
        &mut self,
        scheme: &mut S,
        cache: &Cache,
    ) -> (Vec<CachePart>, String) {
        let mut partition = std::mem::take(&mut self.partition);
        let known: Vec<&K> = self.programs.iter().map(|program| &program.known).collect();
        let answer = match scheme.partition(&known, cache, &mut partition) {
            Err(error) => (Vec::new(), self.whole(&error.to_string())),
            Ok(why) => self.described(&partition, &why, cache),
        };
        self.partition = partition;
        answer
    }

    fn described(
        &self,
        partition: &Partition,
        why: &[String],
        cache: &Cache,
    ) -> (Vec<CachePart>, String) {
        let mut reason = String::new();
        let mut parts = Vec::with_capacity(partition.masks.len());
        for (cluster, &mask) in partition.masks.iter().enumerate() {
            let mut part = CachePart { mask, threads: Vec::new() };
            let _ = write!(reason, "; {} of {} ways:", mask.count_ones(), cache.ways);
            let places =
                (0..self.programs.len()).filter(|&place| partition.cluster[place] == cluster);
            for (number, place) in places.enumerate() {
                let program = &self.programs[place];
                part.threads.extend_from_slice(&program.threads);
                let comma = if number == 0 { "" } else { "," };
                let _ = write!(reason, "{comma} {} ({})", program.name, why[place]);
            }
            parts.push(part);
        }
        if let [only] = &parts[..]
            && only.mask.count_ones() == cache.ways
        {
            parts.clear();
        }
        (parts, reason)
    }
}

fn take<K>(programs: &mut Vec<Program<K>>, process: ProcessId) -> Option<Program<K>> {
    let place = programs.iter().position(|program| program.process == process)?;
    Some(programs.remove(place))
}

/// The name of the program of these threads.
fn name<'v>(threads: &[ThreadId], view: &'v View<'_>) -> &'v str {
    let first = threads.first().and_then(|&id| view.thread(id));
    first.map_or("", |thread| thread.program.as_str())
}

impl<K> Program<K> {
    fn new(process: ProcessId, name: &str, known: K, pace: &WindowPace) -> Self {
        Self {
            process,
            name: name.to_owned(),
            threads: Vec::new(),
            window: Window::default(),
            warming: pace.warm_up,
            waits: None,
            known,
        }
    }

    /// Its name and what is known of it.
    pub(super) fn into_known(self) -> (String, K) {
        (self.name, self.known)
    }
}
