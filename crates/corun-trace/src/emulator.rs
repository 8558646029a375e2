//! The command line of an emulator with the plug-in: written by the starter and by a plug-in whose
//! program executes another one, read back by the plug-in.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::plugin::PluginOptions;
use crate::program::Program;
use crate::report_folder::key_variable;

/// What a process with the plug-in was started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// The plug-in's file.
    pub(crate) plugin: PathBuf,
    /// The processor that is shown to the program; else QEMU's own choice.
    pub(crate) cpu: Option<OsString>,
    /// The program's ELF file.
    pub(crate) binary: PathBuf,
    /// The program's own words, the name it is called by first.
    pub(crate) command: Vec<OsString>,
}

/// The words behind the emulator's own name. `environment` holds variables for the program alone.
pub(crate) fn arguments(
    plugin: &Path,
    cpu: Option<&OsStr>,
    options: &PluginOptions,
    environment: &[OsString],
    program: &Program,
) -> Vec<OsString> {
    let mut value = b"file=".to_vec();
    value.extend(doubled(plugin.as_os_str()));
    for word in options.words() {
        value.push(b',');
        value.extend(word.as_bytes());
    }
    let mut words = vec!["-plugin".into(), OsString::from_vec(value)];
    if let Some(cpu) = cpu {
        words.extend(["-cpu".into(), cpu.to_owned()]);
    }
    if !options.key.is_empty() {
        // The plug-in's, and none of the program's business.
        words.extend(["-U".into(), key_variable(&options.report).into()]);
    }
    for variable in environment {
        words.extend(["-E".into(), variable.clone()]);
    }
    words.extend(["-0".into(), program.called.clone()]);
    // A path that begins with a dash would be an option.
    let dash = program.binary.as_os_str().as_bytes().starts_with(b"-");
    let binary = if dash { Path::new(".").join(&program.binary) } else { program.binary.clone() };
    words.push(binary.into_os_string());
    words.extend(program.arguments.iter().cloned());
    words
}

/// QEMU reads two commas as one inside a value.
pub(crate) fn doubled(text: &OsStr) -> Vec<u8> {
    let bytes = text.as_bytes().iter();
    bytes.flat_map(|&byte| std::iter::repeat_n(byte, if byte == b',' { 2 } else { 1 })).collect()
}

impl Invocation {
    /// Reads a process's whole command line, its words ended by zeros as in /proc.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\0").unwrap_or(line);
        let mut words =
            line.split(|&byte| byte == 0).skip(1).map(|word| OsString::from_vec(word.to_vec()));
        let (mut plugin, mut cpu, mut called) = (None, None, None);
        loop {
            let word = words.next()?;
            if !word.as_bytes().starts_with(b"-") {
                let called = called.unwrap_or_else(|| word.clone());
                let command = std::iter::once(called).chain(words).collect();
                return Some(Self { plugin: plugin?, cpu, binary: word.into(), command });
            }
            let value = words.next()?;
            match word.as_bytes() {
                b"-plugin" => plugin = Some(plugin_file(&value)),
                b"-cpu" => cpu = Some(value),
                b"-0" => called = Some(value),
                _ => {}
            }
        }
    }
}

/// The file's name in front of the first single comma.
fn plugin_file(value: &OsStr) -> PathBuf {
    let value = value.as_bytes();
    let mut rest = value.strip_prefix(b"file=").unwrap_or(value).iter().copied().peekable();
    let mut file = Vec::new();
    while let Some(byte) = rest.next() {
        if byte == b',' && rest.next_if_eq(&b',').is_none() {
            break;
        }
        file.push(byte);
    }
    PathBuf::from(OsString::from_vec(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_reads_back() {
        let program = Program {
            qemu: "qemu-x86_64",
            binary: "-odd".into(),
            called: "called".into(),
            arguments: ["-x".into(), "".into()].to_vec(),
        };
        let options = PluginOptions::new("/tmp/a,b".into());
        let plugin = Path::new("/x=1/a,b/lib.so");
        let words = arguments(plugin, Some("max".as_ref()), &options, &["A=b".into()], &program);
        let mut line = b"/usr/bin/qemu-x86_64\0".to_vec();
        for word in &words {
            line.extend(word.as_bytes());
            line.push(0);
        }
        let read = Invocation::parse(&line).unwrap();
        let command = ["called", "-x", ""].map(OsString::from).to_vec();
        let (plugin, cpu) = (plugin.to_owned(), Some("max".into()));
        assert_eq!(read, Invocation { plugin, cpu, binary: "./-odd".into(), command });
    }

    #[test]
    fn a_command_line_by_hand_reads_too() {
        let read = Invocation::parse(b"qemu-x86_64\0-plugin\0lib.so,report=x\0a\0b\0").unwrap();
        assert_eq!((read.plugin, read.binary), ("lib.so".into(), "a".into()));
        assert_eq!(read.command, ["a", "b"]);
        assert_eq!(Invocation::parse(b"qemu-x86_64\0a\0"), None);
    }
}
