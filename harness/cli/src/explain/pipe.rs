//! A pipe that is read on a thread of its own, so that Ctrl-C is heard while nothing comes.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Bytes read at once, and parts that wait at most.
const PART: usize = 1 << 18;
const WAITING: usize = 16;
/// Ctrl-C is looked for at least so often.
const LOOK: Duration = Duration::from_millis(50);

type Part = io::Result<Vec<u8>>;

/// What comes of the pipe, until its end or Ctrl-C.
pub(super) struct Piped<'a> {
    parts: Receiver<Part>,
    part: io::Cursor<Vec<u8>>,
    cancel: &'a AtomicBool,
    /// Parts that are taken after Ctrl-C: those that waited then.
    left: usize,
}

impl<'a> Piped<'a> {
    /// Reads `source` from now on.
    pub(super) fn new(source: Box<dyn Read + Send>, cancel: &'a AtomicBool) -> Self {
        let (sender, parts) = sync_channel(WAITING);
        // It ends with the pipe, or with the process.
        std::thread::spawn(move || pump(source, &sender));
        Self {
            parts,
            part: io::Cursor::default(),
            cancel,
            left: WAITING,
        }
    }
}

fn pump(mut source: Box<dyn Read + Send>, sender: &SyncSender<Part>) {
    loop {
        let mut part = vec![0; PART];
        let read = match source.read(&mut part) {
            Ok(0) => return,
            Ok(n) => {
                part.truncate(n);
                Ok(part)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = read.is_err();
        if sender.send(read).is_err() || failed {
            return;
        }
    }
}

impl Read for Piped<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.part.read(out)?;
            if n > 0 || out.is_empty() {
                return Ok(n);
            }
            if self.cancel.load(Ordering::Relaxed) {
                match (self.left, self.parts.try_recv()) {
                    (1.., Ok(part)) => self.part = io::Cursor::new(part?),
                    _ => return Ok(0),
                }
                self.left -= 1;
                continue;
            }
            match self.parts.recv_timeout(LOOK) {
                Ok(part) => self.part = io::Cursor::new(part?),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
