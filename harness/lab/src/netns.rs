//! Network namespaces with names, as `ip netns` has them: a file in `/run/netns` on which the
//! namespace is mounted.

use super::joined;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

/// Where namespaces have their names.
pub(super) const FOLDER: &str = "/run/netns";

/// A network namespace. It is there as long as it has a name, a process, or this.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

/// What is at a name.
#[derive(Debug)]
pub(super) enum Named {
    /// Nothing.
    Nothing,
    /// An empty file without a namespace, as an interrupted start leaves it.
    EmptyFile,
    /// A namespace.
    Namespace(Namespace),
    /// Something else.
    Other,
}

/// The file of a name.
pub(super) fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// Nobody else changes names meanwhile; until the file is dropped.
pub(super) fn lock_names() -> io::Result<File> {
    fs::create_dir_all(FOLDER)?;
    let folder = File::open(FOLDER)?;
    folder.lock()?;
    Ok(folder)
}

/// What is called `name`.
pub(super) fn look(name: &str) -> io::Result<Named> {
    let file = match File::open(path(name)) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Named::Nothing),
        Err(e) => return Err(e),
    };
    if fstatfs(&file)?.filesystem_type() == NSFS_MAGIC {
        return Ok(Named::Namespace(Namespace { file }));
    }
    let meta = file.metadata()?;
    match meta.is_file() && meta.len() == 0 {
        true => Ok(Named::EmptyFile),
        false => Ok(Named::Other),
    }
}

/// Take the name from what has it. A namespace with processes lives on without.
pub(super) fn remove(name: &str) -> io::Result<()> {
    let path = path(name);
    // A mount over a mount is possible.
    loop {
        match umount2(&path, MntFlags::MNT_DETACH) {
            Ok(()) => {}
            Err(Errno::EINVAL | Errno::ENOENT) => break,
            Err(e) => return Err(e.into()),
        }
    }
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

impl Namespace {
    /// A new one, without a name.
    ///
    /// # Errors
    /// If the caller may not.
    pub fn new() -> io::Result<Self> {
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        };
        let file = in_thread(make)??;
        Ok(Self { file })
    }

    /// The same once more.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        let file = self.file.try_clone()?;
        Ok(Self { file })
    }

    /// That of a process.
    pub(super) fn of_process(process: u32) -> io::Result<Self> {
        let file = File::open(format!("/proc/{process}/ns/net"))?;
        Ok(Self { file })
    }

    /// Run `f` in it, on a thread of its own.
    ///
    /// # Errors
    /// If there is no thread to be had, or the caller may not.
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> io::Result<R> {
        in_thread(|| {
            setns(&self.file, CloneFlags::CLONE_NEWNET)?;
            Ok(f())
        })?
    }

    /// Sets a variable of the TCP, by its name below /proc/sys/net/ipv4.
    pub(super) fn set(&self, name: &str, value: &str) -> io::Result<()> {
        let path = format!("/proc/sys/net/ipv4/{name}");
        self.run(|| fs::write(path, value))?
    }

    /// Write to a file of an interface below /sys/class/net, of which each mount shows one namespace.
    pub(super) fn write_attribute(
        &self,
        interface: &str,
        file: &str,
        value: &str,
    ) -> io::Result<()> {
        let path = format!("/sys/class/net/{interface}/{file}");
        self.run(|| {
            // The mounts of this thread, too, are its own and gone with it.
            unshare(CloneFlags::CLONE_NEWNS)?;
            let nothing: Option<&str> = None;
            let private = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
            mount(nothing, "/", nothing, private, nothing)?;
            mount(
                Some("sysfs"),
                "/sys",
                Some("sysfs"),
                MsFlags::empty(),
                nothing,
            )?;
            fs::write(path, value)
        })?
    }

    /// Give it a name, which is free.
    pub(super) fn publish(&self, name: &str) -> io::Result<()> {
        let folder = Path::new(FOLDER);
        // As `ip netns` does: names are to be seen, and to go, in other mount namespaces too.
        let nothing: Option<&str> = None;
        let share = MsFlags::MS_SHARED | MsFlags::MS_REC;
        if mount(nothing, folder, nothing, share, nothing).is_err() {
            let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(folder), folder, nothing, bind, nothing)?;
            mount(nothing, folder, nothing, share, nothing)?;
        }
        let path = path(name);
        File::create_new(&path)?;
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let bound = mount(
            Some(own.as_str()),
            &path,
            nothing,
            MsFlags::MS_BIND,
            nothing,
        );
        bound.map_err(|e| {
            let _ = fs::remove_file(&path);
            e.into()
        })
    }

    /// The processes in it.
    pub(super) fn processes(&self) -> io::Result<Vec<u32>> {
        let own = self.file.metadata()?;
        let mut pids: Vec<u32> = fs::read_dir("/proc")?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|pid| {
                // A process may end while it is looked at.
                fs::metadata(format!("/proc/{pid}/ns/net"))
                    .is_ok_and(|m| m.ino() == own.ino() && m.dev() == own.dev())
            })
            .collect();
        pids.sort_unstable();
        Ok(pids)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The namespace of a thread is its own affair, and gone with it.
fn in_thread<R: Send>(f: impl FnOnce() -> R + Send) -> io::Result<R> {
    let mut result = None;
    run_in_thread(Box::new(|| result = Some(f())))?;
    Ok(result.expect("the thread ended without a panic"))
}

/// For one type, since starting a thread is a lot of code to compile for each that is asked for.
fn run_in_thread(f: Box<dyn FnOnce() + Send + '_>) -> io::Result<()> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, f)?;
        joined(thread.join());
        Ok(())
    })
}
