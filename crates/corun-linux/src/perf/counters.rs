//! Counting events for a thread or a CPU: groups of counters, read together and set right where
//! the hardware had to take turns.

use std::io;

use corun_machine::CpuId;
use perf_event::events::Software;
use perf_event::{Builder, Counter, ReadFormat};

use super::events::{Encoding, PerfEvent};

/// Whose events are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CountTarget {
    /// One thread's.
    Thread(u32),
    /// One thread's and those of all that it starts from now on, also after they ended.
    Family(u32),
    /// All that happens on one CPU.
    Cpu(CpuId),
}

/// The events to be counted, in groups whose members are always counted at the same time, so that
/// their ratios hold.
#[derive(Debug, Clone)]
pub struct EventGroups {
    /// How many events there are.
    events: usize,
    groups: Vec<Group>,
}

/// Events that are counted together: on one kind of core, or by the kernel itself.
#[derive(Debug, Clone)]
struct Group {
    core: Option<usize>,
    /// Each with the event's place.
    members: Vec<(usize, Encoding)>,
}

impl EventGroups {
    /// Groups by the number given with each event; those of a group that count on different kinds
    /// of core are parted.
    pub fn new<'a>(events: impl IntoIterator<Item = (usize, &'a PerfEvent)>) -> Self {
        let mut groups: Vec<(usize, Group)> = Vec::new();
        let mut count = 0;
        for (group, event) in events {
            for encoding in &event.encodings {
                let core = encoding.core;
                let member = (count, encoding.clone());
                match groups.iter_mut().find(|(number, one)| *number == group && one.core == core) {
                    Some((_, found)) => found.members.push(member),
                    None => groups.push((group, Group { core, members: vec![member] })),
                }
            }
            count += 1;
        }
        Self { events: count, groups: groups.into_iter().map(|(_, group)| group).collect() }
    }

    /// How many events there are.
    pub fn events(&self) -> usize {
        self.events
    }
}

/// What one group has counted since it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupReading {
    /// Nanoseconds that it could have counted: the thread ran, or the CPU was on.
    pub enabled_ns: u64,
    /// Nanoseconds that it did count.
    pub running_ns: u64,
    /// By event, in the order in which they were opened.
    pub values: Vec<u64>,
}

/// Open counters of one thread or CPU.
#[derive(Debug)]
pub struct OpenCounters {
    groups: Vec<OpenGroup>,
}

#[derive(Debug)]
struct OpenGroup {
    reader: Box<dyn GroupReader>,
    /// The places of the events.
    places: Vec<usize>,
    before: GroupReading,
}

/// Reads the counters of a group together.
pub trait GroupReader: std::fmt::Debug + Send {
    /// What they have counted since they were opened.
    ///
    /// # Errors
    /// When nothing can be read: what happened meanwhile is in the next reading.
    fn read(&mut self) -> io::Result<GroupReading>;
}

/// The first leads.
#[derive(Debug)]
struct GroupCounters(Vec<Counter>);

impl OpenCounters {
    /// Opens the counters; they count from now on.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn open(counted: CountTarget, wanted: &EventGroups) -> io::Result<Self> {
        let mut groups = Vec::with_capacity(wanted.groups.len());
        for group in &wanted.groups {
            // Counts of a family cannot be read as a group on kernels before 6.13.
            let apart = matches!(counted, CountTarget::Family(_));
            let together = if apart { None } else { OpenGroup::open(counted, &group.members)? };
            match together {
                Some(group) => groups.push(group),
                // More than the hardware counts at once: each by itself, by turns.
                None => {
                    for member in &group.members {
                        let alone = OpenGroup::open(counted, std::slice::from_ref(member))?;
                        groups.extend(alone);
                    }
                }
            }
        }
        Ok(Self { groups })
    }

    /// Counters that are read in another way than the kernel's, each group with the places of its events.
    pub fn read_by(groups: impl IntoIterator<Item = (Box<dyn GroupReader>, Vec<usize>)>) -> Self {
        let group = |(reader, places): (Box<dyn GroupReader>, Vec<usize>)| {
            let values = vec![0; places.len()];
            OpenGroup { reader, places, before: GroupReading { values, ..GroupReading::default() } }
        };
        Self { groups: groups.into_iter().map(group).collect() }
    }

    /// What happened since the last call that succeeded, by the event's place: an event that was never
    /// counted in that time is unknown.
    ///
    /// # Errors
    /// The first answer by which a group cannot be read; then none of them has advanced.
    pub fn advance(&mut self, events: usize) -> io::Result<Vec<Option<f64>>> {
        // All groups or none: what the next call gives is then of one and the same time.
        let read: Vec<GroupReading> =
            self.groups.iter_mut().map(|group| group.reader.read()).collect::<io::Result<_>>()?;
        let mut parts: Vec<Vec<Part>> = vec![Vec::new(); events];
        for (group, now) in self.groups.iter_mut().zip(read) {
            let before = std::mem::replace(&mut group.before, now.clone());
            for (at, &place) in group.places.iter().enumerate() {
                parts[place].push(Part::between(&before, &now, at));
            }
        }
        Ok(parts.iter().map(|parts| together(parts)).collect())
    }
}

impl OpenGroup {
    /// None where the hardware cannot count them all at the same time.
    fn open(counted: CountTarget, members: &[(usize, Encoding)]) -> io::Result<Option<Self>> {
        let mut counters: Vec<Counter> = Vec::with_capacity(members.len());
        for (_, encoding) in members {
            let mut builder = builder(counted, encoding, members.len() > 1);
            let opened = match counters.first_mut() {
                // What joins a leader that counts already, and is of another kind, is never counted on a CPU.
                None => builder.enabled(members.len() == 1).build(),
                Some(leader) => {
                    let of_leader = self::builder(counted, &members[0].1, true);
                    join(&builder, leader, &of_leader)
                }
            };
            match opened {
                Ok(counter) => counters.push(counter),
                Err(error) if !counters.is_empty() && cannot_join(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        if let [leader, _, ..] = &mut counters[..] {
            leader.enable()?;
        }
        let places = members.iter().map(|(place, _)| *place).collect();
        let values = vec![0; members.len()];
        let reader = Box::new(GroupCounters(counters));
        Ok(Some(Self {
            reader,
            places,
            before: GroupReading { values, ..GroupReading::default() },
        }))
    }
}

impl GroupReader for GroupCounters {
    fn read(&mut self) -> io::Result<GroupReading> {
        let alone = self.0.len() == 1;
        let leader = &mut self.0[0];
        if alone {
            let data = leader.read_count_and_time()?;
            let (enabled_ns, running_ns) = (data.time_enabled, data.time_running);
            return Ok(GroupReading { enabled_ns, running_ns, values: vec![data.count] });
        }
        let data = leader.read_group()?;
        let ns = |time: Option<std::time::Duration>| time.map_or(0, |time| time.as_nanos() as u64);
        Ok(GroupReading {
            enabled_ns: ns(data.time_enabled()),
            running_ns: ns(data.time_running()),
            // In the order in which they joined.
            values: data.iter().map(|entry| entry.value()).collect(),
        })
    }
}

pub(super) fn builder(
    counted: CountTarget,
    encoding: &Encoding,
    grouped: bool,
) -> Builder<'static> {
    let mut builder = Builder::new(Software::DUMMY);
    let mut format = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    if grouped {
        format |= ReadFormat::GROUP | ReadFormat::ID;
    }
    builder.read_format(format);
    builder.exclude_kernel(encoding.user_only).exclude_user(encoding.kernel_only);
    builder.exclude_hv(encoding.user_only).enabled(true);
    match counted {
        CountTarget::Thread(tid) => builder.observe_pid(tid as i32).any_cpu(),
        CountTarget::Family(tid) => builder.observe_pid(tid as i32).any_cpu().inherit(true),
        CountTarget::Cpu(cpu) => builder.any_pid().one_cpu(cpu.0 as usize),
    };
    let attributes = builder.attrs_mut();
    attributes.type_ = encoding.kind;
    attributes.config = encoding.config;
    attributes.config1 = encoding.config1;
    attributes.config2 = encoding.config2;
    attributes.config3 = encoding.config3;
    builder
}

/// Tries to count an event on all its counters. Only what programs do is counted where this user may not
/// see the rest; `user_only` is set then.
///
/// # Errors
/// The kernel's answer: this machine cannot count it.
pub fn try_event(event: &mut PerfEvent, user_only: &mut bool) -> io::Result<()> {
    let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let open = |event: &PerfEvent| {
        OpenCounters::open(CountTarget::Thread(own), &EventGroups::new([(0, event)])).map(|_| ())
    };
    match open(event) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            event.encodings.iter_mut().for_each(|encoding| encoding.user_only = true);
            *user_only = true;
            open(event)
        }
        other => other,
    }
}

/// Opens an event in the group of a leader, which `of_leader` opened.
///
/// # Errors
/// ESRCH where the thread has ended since the leader was opened. The kernel answers ENODEV there, the same as
/// for an event that the processor does not have; opening the leader's event once more tells them apart.
pub(super) fn join(
    event: &Builder<'_>,
    leader: &mut Counter,
    of_leader: &Builder<'_>,
) -> io::Result<Counter> {
    event.build_with_group(leader).map_err(|error| match of_leader.build() {
        Err(ended) if ended.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => ended,
        _ => error,
    })
}

pub(super) fn cannot_join(error: &io::Error) -> bool {
    let invalid = rustix::io::Errno::INVAL.raw_os_error();
    error.raw_os_error() == Some(invalid)
}

/// What one group says of an event over an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    enabled_ns: u64,
    running_ns: u64,
    count: u64,
}

impl Part {
    pub(super) fn between(before: &GroupReading, now: &GroupReading, at: usize) -> Self {
        let value = |counts: &GroupReading| counts.values.get(at).copied().unwrap_or(0);
        Self {
            enabled_ns: now.enabled_ns.saturating_sub(before.enabled_ns),
            running_ns: now.running_ns.saturating_sub(before.running_ns),
            count: value(now).saturating_sub(value(before)),
        }
    }
}

/// Adds up an event's counts on the kinds of core. Each counts only while the thread is on its
/// kind, so that the times they counted add up, too; where these are less than the time there was
/// to count, the hardware took turns, and the sum is scaled up. None where nothing counted though
/// there was time.
pub(super) fn together(parts: &[Part]) -> Option<f64> {
    let enabled_ns = parts.iter().map(|part| part.enabled_ns).max()?;
    let running_ns: u64 = parts.iter().map(|part| part.running_ns).sum();
    let count: u64 = parts.iter().map(|part| part.count).sum();
    match (enabled_ns, running_ns) {
        (0, _) => Some(count as f64),
        (_, 0) => None,
        _ if running_ns >= enabled_ns => Some(count as f64),
        _ => Some(count as f64 * enabled_ns as f64 / running_ns as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Roots;
    use crate::perf::Pmus;

    fn part(enabled_ns: u64, running_ns: u64, count: u64) -> Part {
        Part { enabled_ns, running_ns, count }
    }

    #[test]
    fn counts_are_scaled_by_the_time_that_was_counted() {
        assert_eq!(together(&[part(100, 100, 7)]), Some(7.0));
        assert_eq!(together(&[part(100, 25, 7)]), Some(28.0));
        assert_eq!(together(&[part(100, 0, 0)]), None);
        // A thread that did not run did nothing.
        assert_eq!(together(&[part(0, 0, 0)]), Some(0.0));
        assert_eq!(together(&[]), None);
    }

    #[test]
    fn kinds_of_core_share_the_time_and_add_up() {
        // A quarter of the time on one kind, the rest on the other: all of it was counted.
        assert_eq!(together(&[part(100, 25, 10), part(100, 75, 40)]), Some(50.0));
        // By turns on both.
        assert_eq!(together(&[part(100, 10, 10), part(100, 40, 40)]), Some(100.0));
        assert_eq!(together(&[part(100, 0, 0), part(100, 100, 40)]), Some(40.0));
    }

    /// Says what a test wrote down, one reading after the other.
    #[derive(Debug)]
    struct Written(Vec<io::Result<u64>>);

    impl GroupReader for Written {
        fn read(&mut self) -> io::Result<GroupReading> {
            let value = self.0.remove(0)?;
            Ok(GroupReading { enabled_ns: value, running_ns: value, values: vec![value] })
        }
    }

    /// Counters of two groups of one event each.
    fn written(groups: [Vec<io::Result<u64>>; 2]) -> OpenCounters {
        let group = |(place, readings)| {
            let reader: Box<dyn GroupReader> = Box::new(Written(readings));
            (reader, vec![place])
        };
        OpenCounters::read_by(groups.into_iter().enumerate().map(group))
    }

    /// A reading that fails takes nothing away, of no group: the next gives what happened since the one
    /// before it.
    #[test]
    fn what_could_not_be_read_is_in_the_next_reading() {
        let failed = || Err(io::ErrorKind::Interrupted.into());
        let mut counters = written([vec![Ok(10), Ok(15), Ok(40)], vec![Ok(1), failed(), Ok(3)]]);
        assert_eq!(counters.advance(2).unwrap(), [Some(10.0), Some(1.0)]);
        counters.advance(2).unwrap_err();
        assert_eq!(counters.advance(2).unwrap(), [Some(30.0), Some(2.0)]);
    }

    #[test]
    fn events_of_a_group_are_parted_by_kind_of_core() {
        let encoding = |core| Encoding { core, ..software("cs").encodings[0].clone() };
        let event = |cores: &[usize]| PerfEvent {
            encodings: cores.iter().map(|&core| encoding(Some(core))).collect(),
            ..software("cs")
        };
        let events = [event(&[0, 1]), event(&[0, 1]), event(&[0])];
        let groups = EventGroups::new([(0, &events[0]), (0, &events[1]), (1, &events[2])]);
        let places: Vec<Vec<usize>> = groups
            .groups
            .iter()
            .map(|group| group.members.iter().map(|(place, _)| *place).collect())
            .collect();
        assert_eq!(places, [vec![0, 1], vec![0, 1], vec![2]]);
        assert_eq!(groups.events(), 3);
    }

    fn software(name: &str) -> PerfEvent {
        Pmus::read(&Roots::default()).event(name).unwrap()
    }

    #[test]
    fn a_thread_that_ends_while_its_group_is_opened_is_told_to_have_ended() {
        let [clock, faults] = ["task-clock:u", "page-faults:u"].map(software);
        let mut thread = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let of = |event: &PerfEvent| {
            builder(CountTarget::Thread(thread.id()), &event.encodings[0], true)
        };
        let (of_leader, of_member) = (of(&clock), of(&faults));
        let leader = of_leader.build();
        thread.kill().unwrap();
        thread.wait().unwrap();
        let mut leader = match leader {
            Err(error) => return eprintln!("skipped: counters cannot be opened here: {error}"),
            Ok(leader) => leader,
        };
        let error = join(&of_member, &mut leader, &of_leader).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::SRCH.raw_os_error()), "{error}");
    }

    /// The clock and the faults are of different units of the kernel's.
    #[test]
    fn a_group_of_several_kinds_is_counted_on_a_cpu() {
        let events = ["task-clock", "page-faults"].map(software);
        let groups = EventGroups::new(events.iter().map(|event| (0, event)));
        let cpus = rustix::thread::sched_getaffinity(None).unwrap();
        let allowed = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| cpus.is_set(cpu));
        let opened: io::Result<Vec<OpenCounters>> = allowed
            .map(|cpu| OpenCounters::open(CountTarget::Cpu(CpuId(cpu as u32)), &groups))
            .collect();
        let mut counters = match opened {
            Err(error) => return eprintln!("skipped: CPUs cannot be counted here: {error}"),
            Ok(counters) => counters,
        };
        // On whichever of them this thread runs.
        let mut faults = 0.0;
        for _ in 0..500 {
            drop(std::hint::black_box(vec![1_u8; 64 << 20]));
            for one in &mut counters {
                faults += one.advance(2).unwrap()[1].unwrap_or(0.0);
            }
            if faults >= 1.0 {
                return;
            }
        }
        panic!("no fault was counted");
    }

    #[test]
    fn the_kernels_own_events_are_counted() {
        let events = [software("task-clock"), software("page-faults")];
        let groups = EventGroups::new(events.iter().map(|event| (0, event)));
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut counters = match OpenCounters::open(CountTarget::Thread(own), &groups) {
            Err(error) => return eprintln!("skipped: counters cannot be opened here: {error}"),
            Ok(counters) => counters,
        };
        // A kernel was seen to count no fault in a whole round, so that one round proves nothing.
        let mut total = [0.0; 2];
        for _ in 0..500 {
            drop(std::hint::black_box(vec![1_u8; 64 << 20]));
            let counted = counters.advance(2).unwrap();
            total = [0, 1].map(|event: usize| total[event] + counted[event].unwrap());
            if total[0] > 5e6 && total[1] >= 1.0 {
                break;
            }
        }
        assert!(total[0] > 5e6 && total[1] >= 1.0, "{total:?}");
        let later = std::thread::spawn(move || {
            // Another thread's time is not this one's, which only waits meanwhile.
            let before = counters.advance(2).unwrap()[0].unwrap();
            let clock = std::time::Instant::now();
            while clock.elapsed() < std::time::Duration::from_millis(50) {}
            (before, counters.advance(2).unwrap()[0].unwrap())
        });
        let (_, waiting) = later.join().unwrap();
        assert!(waiting < 25e6, "{waiting} ns");
    }
}
