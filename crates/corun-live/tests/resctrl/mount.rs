//! resctrl's tree as a file system that the running kernel mounts.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::kernel::Kernel;

/// Nothing is cached: every look is a new one.
const AT_ONCE: Duration = Duration::ZERO;

/// Mounts resctrl on a folder, until the answer is dropped or the process ends.
///
/// # Errors
/// Where FUSE cannot mount there.
pub(crate) fn mount(kernel: Arc<Mutex<Kernel>>, on: &Path) -> io::Result<BackgroundSession> {
    let tree = Tree { kernel, paths: Mutex::new(Paths::new()) };
    fuser::spawn_mount(tree, on, &Config::default())
}

/// Numbers of paths, given out when they are first asked for.
struct Paths {
    by_number: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Paths {
    fn new() -> Self {
        Self { by_number: vec![String::new()], numbers: HashMap::from([(String::new(), 1)]) }
    }

    fn number(&mut self, path: &str) -> INodeNo {
        let next = self.by_number.len() as u64 + 1;
        let number = *self.numbers.entry(path.to_owned()).or_insert(next);
        if number == next {
            self.by_number.push(path.to_owned());
        }
        INodeNo(number)
    }

    /// A folder made again under the same name is another one: the running kernel may still hold
    /// what was removed, and makes nothing below it.
    fn forget(&mut self, folder: &str) {
        let below = format!("{folder}/");
        self.numbers.retain(|path, _| path != folder && !path.starts_with(&below));
    }

    fn path(&self, number: INodeNo) -> Option<String> {
        self.by_number.get(usize::try_from(u64::from(number)).ok()?.checked_sub(1)?).cloned()
    }
}

struct Tree {
    kernel: Arc<Mutex<Kernel>>,
    paths: Mutex<Paths>,
}

impl Tree {
    fn kernel(&self) -> MutexGuard<'_, Kernel> {
        self.kernel.lock().unwrap()
    }

    fn path(&self, number: INodeNo) -> Result<String, Errno> {
        self.paths.lock().unwrap().path(number).ok_or(Errno::ENOENT)
    }

    fn below(&self, parent: INodeNo, name: &OsStr) -> Result<String, Errno> {
        let parent = self.path(parent)?;
        let name = name.to_str().ok_or(Errno::EINVAL)?;
        Ok(if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") })
    }

    fn facts(&self, path: &str) -> Result<FileAttr, Errno> {
        let kernel = self.kernel();
        let is_folder = kernel.list(path).is_some();
        if !is_folder {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            let names = kernel.list(folder).unwrap_or_default();
            if !names.iter().any(|one| one == name) {
                return Err(Errno::ENOENT);
            }
        }
        drop(kernel);
        Ok(FileAttr {
            ino: self.paths.lock().unwrap().number(path),
            size: 0,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_folder { FileType::Directory } else { FileType::RegularFile },
            perm: if is_folder { 0o755 } else { 0o644 },
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for Tree {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.below(parent, name).and_then(|path| self.facts(&path)) {
            Ok(facts) => reply.entry(&AT_ONCE, &facts, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.path(number).and_then(|path| self.facts(&path)) {
            Ok(facts) => reply.attr(&AT_ONCE, &facts),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // Truncating is what shells do before they write, and does nothing.
        match self.path(number).and_then(|path| self.facts(&path)) {
            Ok(facts) => reply.attr(&AT_ONCE, &facts),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.path(number).and_then(|path| self.kernel().read(&path)) {
            Ok(text) => {
                let from = text.len().min(offset as usize);
                let to = text.len().min(from + size as usize);
                reply.data(&text.as_bytes()[from..to]);
            }
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let text = String::from_utf8_lossy(data).into_owned();
        match self.path(number).and_then(|path| self.kernel().write(&path, &text)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let made = self.below(parent, name).and_then(|path| {
            self.kernel().mkdir(&path)?;
            self.facts(&path)
        });
        match made {
            Ok(facts) => reply.entry(&AT_ONCE, &facts, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.below(parent, name).and_then(|path| {
            self.kernel().rmdir(&path)?;
            self.paths.lock().unwrap().forget(&path);
            Ok(())
        });
        match removed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.path(number).and_then(|path| {
            let names = self.kernel().list(&path).ok_or(Errno::ENOTDIR)?;
            Ok((path, names))
        });
        let (path, names) = match listed {
            Ok(listed) => listed,
            Err(error) => return reply.error(error),
        };
        for (place, name) in names.iter().enumerate().skip(offset as usize) {
            let plain = name.trim_end_matches('/');
            let kind = if plain == name { FileType::RegularFile } else { FileType::Directory };
            let full = if path.is_empty() { plain.to_owned() } else { format!("{path}/{plain}") };
            let number = self.paths.lock().unwrap().number(&full);
            if reply.add(number, place as u64 + 1, kind, plain) {
                break;
            }
        }
        reply.ok();
    }
}
