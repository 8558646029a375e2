//! `corun fleet serve-extender`: the scheduler extender over HTTP.

use corun_app::{Cancel, find_machine, open_library};
use corun_fleet::{Extender, Seats, serve_extender};

use crate::cli::{ServeExtenderArgs, model_options};
use crate::failure::Outcome;

pub(super) fn run(arguments: &ServeExtenderArgs) -> Outcome<String> {
    let library = open_library(arguments.library.profiles.as_deref())?;
    let seats = if arguments.threads { Seats::Threads } else { Seats::Cores };
    let mut machines = Vec::new();
    for name in &arguments.machine {
        let machine = find_machine(name)?;
        machines.push((machine.name().to_owned(), machine, seats));
    }
    let options = model_options(&arguments.model);
    let extender = Extender::new(machines, &library, options, arguments.oldest)?;
    serve_extender(extender, arguments.listen, &Cancel::on_signal()?)?;
    Ok(String::new())
}
