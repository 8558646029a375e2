//! FILE: what a recording's micro-traces hold.
use corun_profile::{Marks, ProfileData};
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let profile = corun_profile::Profile::load(std::path::Path::new(&path)).unwrap();
    let ProfileData::Recording(recording) = &profile.data else { return };
    let traces = recording.micro_traces.unpack().unwrap();
    for (p, phase) in recording.phases.iter().enumerate() {
        let Some(core) = &phase.core else { continue };
        println!(
            "phase {p}: {} M instr, traces {}, faults pki {:.3} calls {:.4} bytes {:.1} misp large {:.2} mpki@1M {:.2} @8M {:.2} end {:.2} prefetchable {:.2}",
            phase.instructions / 1_000_000,
            core.micro_traces.len(),
            core.page_faults_pki,
            core.system_calls_pki,
            core.transferred_bytes_pki,
            core.mispredicted_large_pki,
            phase.curve.mpki(1048576.0).value,
            phase.curve.mpki(8388608.0).value,
            phase.curve.points().last().unwrap().mpki,
            phase.prefetchable
        );
        let mut s = [0.0f64; 12];
        for &(at, share) in &core.micro_traces {
            let t = &traces[at as usize];
            let n = t.len() as f64 / 1000.0;
            for op in t {
                let w = share / n;
                let mem = op.marks.any(Marks::LOAD.with(Marks::STORE));
                let deep = op.reuse.distance() >= 1024.0 || op.marks.has(Marks::REUSE_AT_LEAST);
                let st = !op.marks.has(Marks::LOAD);
                let f = op.marks.has(Marks::FORESEEN);
                if mem {
                    s[0] += w;
                    if deep {
                        s[1] += w;
                        if st {
                            s[2] += w;
                            if f {
                                s[3] += w
                            }
                        } else {
                            s[4] += w;
                            if f {
                                s[5] += w
                            }
                        }
                        if op.marks.has(Marks::REUSE_AT_LEAST) {
                            s[6] += w
                        }
                    }
                }
                if op.marks.has(Marks::MISPREDICTED_LARGE) {
                    s[7] += w
                }
                if op.marks.has(Marks::TAKEN) {
                    s[8] += w
                }
                if op.marks.has(Marks::PART) {
                    s[9] += w
                }
                if op.forwarded_from > 0 && op.marks.has(Marks::LOAD) {
                    s[10] += w
                }
                if f && mem {
                    s[11] += w
                }
            }
        }
        println!(
            "   mem {:.0} deep(>64K) {:.2}: stores {:.2} (foreseen {:.2}) loads {:.2} (foreseen {:.2}); at-least {:.2}; misp {:.2} taken {:.0} part {:.1} fwd {:.0} foreseen all {:.1}",
            s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11]
        );
    }
    if let Some(at) = std::env::args().nth(2) {
        let at: usize = at.parse().unwrap();
        for (i, op) in traces[at]
            .iter()
            .enumerate()
            .take(std::env::args().nth(3).map_or(200, |n| n.parse().unwrap()))
        {
            println!(
                "{i} {:?} {:016b} in {:?} addr {:?} fwd {} line {} stream {} reuse {:.0} page {:.0} fetch {:.0}",
                op.operation,
                op.marks.0,
                op.inputs,
                op.address_inputs,
                op.forwarded_from,
                op.line_before,
                op.stream_before,
                op.reuse.distance(),
                op.page_reuse.distance(),
                op.fetch_reuse.distance()
            );
        }
    }
}
