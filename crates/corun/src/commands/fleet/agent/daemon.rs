//! The daemon that holds a node's pods, as a child of the agent.

use std::fs;
use std::io::{Seek as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use corun_fleet::{PodGroups, RunningPod, daemon_configuration};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;

use crate::failure::{Failure, Outcome};

/// For the daemon to undo what it did.
const UNDO_TIME: Duration = Duration::from_secs(20);
/// How often it is looked whether it has ended.
const PAUSE: Duration = Duration::from_millis(100);

/// The daemon that holds the pods, as a child.
pub(super) struct Daemon {
    template: String,
    /// Its configuration; the journal lies where the template says.
    file: NamedTempFile,
    running: Option<(Child, String)>,
}

impl Daemon {
    pub(super) fn new(template: &std::path::Path) -> Outcome<Self> {
        let shown = template.display();
        let text = fs::read_to_string(template)
            .map_err(|error| Failure::input(format!("{shown}: {error}")))?;
        let file = tempfile::Builder::new().suffix(".toml").tempfile()?;
        Ok(Self { template: text, file, running: None })
    }

    /// Has the daemon hold these pods: starts it for the first, tells it of others, ends it after the last.
    pub(super) fn hold(&mut self, pods: &[RunningPod], groups: &PodGroups) -> Outcome {
        let wanted = daemon_configuration(&self.template, pods, groups);
        if let Some((child, held)) = &mut self.running {
            match (child.try_wait()?, &wanted) {
                (None, Some(wanted)) if wanted == held => return Ok(()),
                (None, Some(wanted)) => {
                    held.clone_from(wanted);
                    write(&mut self.file, wanted)?;
                    let told = kill_process(Pid::from_child(child), Signal::HUP);
                    return Ok(told.map_err(std::io::Error::from)?);
                }
                (None, None) => return self.ended(),
                (Some(status), _) => {
                    self.running = None;
                    return Err(Failure::Failed(anyhow!(
                        "corun daemon ended ({status}): pods run where the kernel has them"
                    )));
                }
            }
        }
        let Some(wanted) = wanted else { return Ok(()) };
        write(&mut self.file, &wanted)?;
        let own = std::env::current_exe()?;
        let mut command = Command::new(own);
        command.args(["daemon", "--config"]).arg(self.file.path()).stdin(Stdio::null());
        self.running = Some((command.spawn()?, wanted));
        Ok(())
    }

    pub(super) fn stop(mut self) -> Outcome {
        self.ended()
    }

    /// The daemon undoes what it did and ends.
    fn ended(&mut self) -> Outcome {
        let Some((mut child, _)) = self.running.take() else { return Ok(()) };
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        let until = Instant::now() + UNDO_TIME;
        while Instant::now() < until {
            if let Some(status) = child.try_wait()? {
                if status.success() {
                    return Ok(());
                }
                return Err(Failure::Failed(anyhow!("corun daemon ended ({status})")));
            }
            std::thread::sleep(PAUSE);
        }
        child.kill()?;
        child.wait()?;
        Err(Failure::Failed(anyhow!("corun daemon did not end: corun restore undoes what it did")))
    }
}

/// The same file with another text: the daemon knows it by its path.
fn write(file: &mut NamedTempFile, text: &str) -> Outcome {
    let file = file.as_file_mut();
    file.rewind()?;
    file.set_len(0)?;
    Ok(file.write_all(text.as_bytes())?)
}
