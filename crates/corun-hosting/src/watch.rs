//! A host that only looks, and the program that was started for it.

use corun_app::{Cancel, Error, Result};
use corun_live::{Host, Target};

use crate::{Acting, HostBuilder, HostSettings, Look, Program, Started};

/// What a watching host is to be.
#[derive(Debug)]
pub struct WatchSettings {
    /// What it is made by. The policy decides, and nothing of it is done.
    pub host: HostSettings,
    /// The policy that was asked for; none where nothing is to be decided.
    pub policy: Option<String>,
    /// Whom it watches, beside the program.
    pub targets: Vec<Target>,
    /// Stored profiles of these targets.
    pub profiles: Vec<String>,
    /// What is started for it.
    pub program: Option<Program>,
    /// Do the targets' names say which program it is? Else the processes' own do.
    pub named: bool,
    /// How often it looks, and at what.
    pub look: Look,
    /// May a person act on them?
    pub acts: bool,
}

/// A host that only looks, and the program that was started for it.
pub struct Watch {
    /// The host.
    pub host: Host,
    /// The policy, if one was asked for.
    pub policy: Option<String>,
    /// Do the targets' names say which program it is? Else the processes' own do.
    pub named: bool,
    /// Acts on them as a person asks, where that was asked for.
    pub acting: Option<Acting>,
    program: Started,
}

impl Watch {
    /// Of a builder by the same settings. Checks everything; starts nothing yet.
    ///
    /// # Errors
    /// Where the host cannot be as it was asked for.
    pub fn new(builder: HostBuilder, settings: WatchSettings) -> Result<Self> {
        let WatchSettings { host: own, policy, targets, profiles, program, named, look, acts } =
            settings;
        let program = Started::new(program.into_iter().collect());
        let profiles: Vec<&str> =
            profiles.iter().map(String::as_str).chain(program.profiles()).collect();
        let (host, acting) = if acts {
            let (host, acting) = Acting::host(builder, &own, targets, &profiles, &look)?;
            (host, Some(acting))
        } else {
            (builder.host_that_looks(&own, targets, &profiles, &look)?, None)
        };
        Ok(Self { host, policy, named, acting, program })
    }

    /// Starts the program if there is one.
    ///
    /// # Errors
    /// Where the program cannot be started or watched.
    pub fn start(&mut self) -> Result {
        self.program.begin()?;
        for (_, target) in self.program.step()? {
            self.host.add(target).map_err(Error::live)?;
        }
        Ok(())
    }

    /// Takes note of processes of ours that ended.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn reap(&mut self) -> Result {
        self.program.reap()
    }

    /// Is the program over that was started?
    pub fn is_over(&self) -> bool {
        self.program.is_over()
    }

    /// How the command ends: as the program did; without one, well, also by Ctrl-C.
    ///
    /// # Errors
    /// The program's own end where that was not good.
    pub fn exit(&self, cancel: &Cancel) -> Result<String> {
        if !self.program.programs().is_empty() && cancel.is_set() {
            return Err(Error::Interrupted);
        }
        self.program.exit(false)
    }

    /// Ends the program if it still runs.
    ///
    /// # Errors
    /// Where the kernel does not tell that it ended.
    pub fn end(&mut self) -> Result {
        self.program.end()
    }
}
