//! `corun profiles export`.

use std::sync::Arc;

use corun_app::{find_machine, open_library, solo_table};
use corun_model::{Model, ModelOptions};
use corun_profile::{Profile, export_csv};

use super::TABLE_MACHINE;
use crate::cli::ExportArgs;
use crate::failure::Outcome;
use crate::output::{check_target, counted, write_file};
use corun_app::Cancel;

/// What was measured on the machine leaves as it stands, all else as the model sees it there.
pub(super) fn run(arguments: &ExportArgs) -> Outcome<String> {
    let cancel = Cancel::on_signal()?;
    check_target(&arguments.output)?;
    let library = open_library(arguments.profiles.as_deref())?;
    let chosen: Vec<&Profile> = if arguments.programs.is_empty() {
        library.iter().collect()
    } else {
        let names = arguments.programs.iter();
        names.map(|name| library.get(name)).collect::<Result<_, _>>()?
    };
    let name = arguments.machine.as_deref().unwrap_or(TABLE_MACHINE);
    let model = Model::new(Arc::new(find_machine(name)?), ModelOptions::default())?;
    let mut derived = 0;
    let mut tables = Vec::with_capacity(chosen.len());
    for profile in chosen {
        cancel.check()?;
        let (table, is_derived) = solo_table(&model, profile)?;
        derived += usize::from(is_derived);
        tables.push(table);
    }
    write_file(&arguments.output, export_csv(&tables).as_bytes())?;
    let measured = tables.len() - derived;
    let machine = model.machine().name();
    let mut text = format!(
        "{} written to {}: {measured} as measured on {machine}, {derived} derived by the model\n",
        counted(tables.len(), "program"),
        arguments.output.display(),
    );
    if machine != TABLE_MACHINE {
        text.push_str(&format!(
            "the table does not name its machine: import it with --machine {machine}\n"
        ));
    }
    Ok(text)
}
