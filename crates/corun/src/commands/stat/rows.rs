//! Samples as lines: a table, CSV or JSON.

use std::io::{self, Write};

use corun_linux::perf::Increase;
use serde_json::{Map, Value, json};

use crate::cli::{LineFormat, PerName};
use corun_report::round;

/// Whose sample a line is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Whose {
    /// A thread.
    Thread { pid: u32, tid: u32, program: String, cpu: u32 },
    /// Threads and processes that came and went between samples.
    Others,
    /// A CPU.
    Cpu(u32),
    /// The program with all that it started, over the whole time.
    Total,
}

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Seconds since the start.
    pub(super) time_s: f64,
    /// Seconds that it covers.
    pub(super) interval_s: f64,
    pub(super) whose: Whose,
    /// By event.
    pub(super) counts: Increase,
}

/// An event as columns show it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) is_time: bool,
}

/// Writes samples as they come.
pub(super) struct Rows<W> {
    out: W,
    format: LineFormat,
    columns: Vec<Column>,
    per: Vec<PerName>,
    /// Leaves lines out of the table of which all counts are 0.
    without_idle: bool,
    begun: bool,
}

const NARROWEST: usize = 12;

fn is_idle(row: &Row) -> bool {
    row.counts.iter().all(|count| count.is_none_or(|count| count == 0.0))
}

impl<W: Write> Rows<W> {
    pub(super) fn new(out: W, format: LineFormat, columns: Vec<Column>, per: Vec<PerName>) -> Self {
        Self { out, format, columns, per, without_idle: false, begun: false }
    }

    /// The same; `without_idle`: lines of which all counts are 0 are left out of the table for people.
    pub(super) fn without_idle(self, without_idle: bool) -> Self {
        Self { without_idle, ..self }
    }

    /// Writes one moment's samples, and a header before the first.
    pub(super) fn write(&mut self, rows: &[Row]) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.header()?;
        }
        for row in rows {
            match self.format {
                LineFormat::Text if self.without_idle && is_idle(row) => {}
                LineFormat::Text => self.text(row)?,
                LineFormat::Csv => self.csv(row)?,
                LineFormat::Json => self.json(row)?,
            }
        }
        self.out.flush()
    }

    /// The heads of the figures: each event's count, then its rates.
    fn heads(&self) -> Vec<String> {
        let each = self.columns.iter().flat_map(|column| {
            let unit = if column.is_time { "_ns" } else { "" };
            let count = format!("{}{unit}", column.name);
            let rates = self.per.iter().map(move |per| match per {
                PerName::Second => format!("{}{unit}_per_s", column.name),
                PerName::Instructions => format!("{}{unit}_per_1000_instructions", column.name),
                PerName::Cycles => format!("{}{unit}_per_1000_cycles", column.name),
            });
            std::iter::once(count).chain(rates)
        });
        each.collect()
    }

    /// In the order of the heads.
    fn figures(&self, row: &Row) -> Vec<Option<f64>> {
        let of = |name: &str| {
            let place = self.columns.iter().position(|column| base(&column.name) == name)?;
            row.counts[place]
        };
        let mut figures = Vec::new();
        for count in row.counts.iter().copied() {
            figures.push(count);
            figures.extend(self.per.iter().map(|per| {
                let (count, by) = (
                    count?,
                    match per {
                        PerName::Second => row.interval_s,
                        PerName::Instructions => of("instructions")? / 1000.0,
                        PerName::Cycles => of("cycles")? / 1000.0,
                    },
                );
                (by > 0.0).then(|| count / by)
            }));
        }
        figures
    }

    fn header(&mut self) -> io::Result<()> {
        let heads = self.heads();
        match self.format {
            LineFormat::Json => Ok(()),
            LineFormat::Csv => {
                let fixed = ["time_s", "interval_s", "of", "pid", "tid", "program", "cpu"];
                let line = fixed.into_iter().map(str::to_owned).chain(heads);
                self.csv_line(line.collect())
            }
            LineFormat::Text => {
                let mut line =
                    format!("{:>8} {:>7} {:>4} {:<16}", "time", "thread", "cpu", "program");
                for head in heads {
                    line.push_str(&format!(" {head:>NARROWEST$}"));
                }
                writeln!(self.out, "{line}")
            }
        }
    }

    fn text(&mut self, row: &Row) -> io::Result<()> {
        let (thread, cpu, program) = match &row.whose {
            Whose::Thread { tid, program, cpu, .. } => {
                (tid.to_string(), cpu.to_string(), program.as_str())
            }
            Whose::Others => (String::new(), String::new(), "(others)"),
            Whose::Cpu(cpu) => (String::new(), cpu.to_string(), "(all)"),
            Whose::Total => (String::new(), String::new(), "(total)"),
        };
        let mut line = format!("{:>8.3} {thread:>7} {cpu:>4} {program:<16}", row.time_s);
        for (figure, head) in self.figures(row).into_iter().zip(self.heads()) {
            let text = figure.map_or_else(|| "-".to_owned(), figure_text);
            line.push_str(&format!(" {text:>0$}", head.len().max(NARROWEST)));
        }
        writeln!(self.out, "{line}")
    }

    fn csv(&mut self, row: &Row) -> io::Result<()> {
        let (of, pid, tid, program, cpu) = match &row.whose {
            Whose::Thread { pid, tid, program, cpu } => {
                ("thread", pid.to_string(), tid.to_string(), program.clone(), cpu.to_string())
            }
            Whose::Cpu(cpu) => {
                ("cpu", String::new(), String::new(), String::new(), cpu.to_string())
            }
            Whose::Others => ("others", String::new(), String::new(), String::new(), String::new()),
            Whose::Total => ("total", String::new(), String::new(), String::new(), String::new()),
        };
        let times = [row.time_s, row.interval_s].map(|seconds| format!("{seconds:.6}"));
        let [time, interval] = times;
        let fixed = [time, interval, of.to_owned(), pid, tid, program, cpu];
        let figures = self.figures(row).into_iter();
        let figures = figures.map(|figure| figure.map(figure_text).unwrap_or_default());
        self.csv_line(fixed.into_iter().chain(figures).collect())
    }

    fn csv_line(&mut self, fields: Vec<String>) -> io::Result<()> {
        let mut line = csv::Writer::from_writer(Vec::new());
        line.write_record(&fields).map_err(io::Error::other)?;
        let line = line.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
        self.out.write_all(&line)
    }

    fn json(&mut self, row: &Row) -> io::Result<()> {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        put("time_s", json!(round(row.time_s, 6)));
        put("interval_s", json!(round(row.interval_s, 6)));
        match &row.whose {
            Whose::Thread { pid, tid, program, cpu } => {
                put("of", json!("thread"));
                put("pid", json!(pid));
                put("tid", json!(tid));
                put("program", json!(program));
                put("cpu", json!(cpu));
            }
            Whose::Cpu(cpu) => {
                put("of", json!("cpu"));
                put("cpu", json!(cpu));
            }
            Whose::Others => drop(put("of", json!("others"))),
            Whose::Total => drop(put("of", json!("total"))),
        }
        let figures = self.figures(row).into_iter();
        let figures = self.heads().into_iter().zip(figures.map(|figure| json!(figure.map(tidy))));
        fields.insert("counts".to_owned(), Value::Object(figures.collect()));
        writeln!(self.out, "{}", Value::Object(fields))
    }
}

/// The event's name without what kind of counter and which mode it counts.
pub(super) fn base(name: &str) -> &str {
    let name = name.split(':').next().unwrap_or(name);
    if name == "cpu-cycles" { "cycles" } else { name }
}

/// Counts are whole; rates and scaled counts keep as much as they are worth.
fn tidy(figure: f64) -> f64 {
    if figure.abs() >= 1000.0 { figure.round() } else { round(figure, 3) }
}

fn figure_text(figure: f64) -> String {
    tidy(figure).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: LineFormat, per: &[PerName], rows: &[Row]) -> String {
        let columns = ["instructions", "cache-misses"]
            .map(|name| Column { name: name.to_owned(), is_time: false });
        let mut out = Vec::new();
        Rows::new(&mut out, format, columns.to_vec(), per.to_vec()).write(rows).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn row(whose: Whose, counts: [Option<f64>; 2]) -> Row {
        Row { time_s: 1.5, interval_s: 0.5, whose, counts: counts.to_vec() }
    }

    #[test]
    fn rates_follow_their_counts() {
        let thread = Whose::Thread { pid: 5, tid: 6, program: "a,b".to_owned(), cpu: 1 };
        let rows = [row(thread, [Some(4000.0), Some(10.0)]), row(Whose::Others, [Some(0.0), None])];
        let per = [PerName::Second, PerName::Instructions];
        let expected = "time_s,interval_s,of,pid,tid,program,cpu,instructions,instructions_per_s,\
            instructions_per_1000_instructions,cache-misses,cache-misses_per_s,\
            cache-misses_per_1000_instructions\n\
            1.500000,0.500000,thread,5,6,\"a,b\",1,4000,8000,1000,10,20,2.5\n\
            1.500000,0.500000,others,,,,,0,0,,,,\n";
        assert_eq!(written(LineFormat::Csv, &per, &rows), expected);
    }

    #[test]
    fn what_is_unknown_is_shown_as_such() {
        let rows = [row(Whose::Cpu(3), [Some(7.0), None])];
        let json: Value = serde_json::from_str(&written(LineFormat::Json, &[], &rows)).unwrap();
        assert_eq!(json["counts"], json!({"instructions": 7.0, "cache-misses": null}));
        assert_eq!((&json["of"], &json["cpu"]), (&json!("cpu"), &json!(3)));
        let text = written(LineFormat::Text, &[], &rows);
        let line = "   1.500            3 (all)                       7            -\n";
        assert_eq!(text.split_once('\n').unwrap().1, line);
    }
}
