//! `layout SYMBOLS TRACE... > ORDER`: in which order a linker is to lay out functions, so that those that a
//! packet comes by do not push each other out of the first-level instruction cache. `benches/dist.sh` calls it.
//!
//! `SYMBOLS` is what `nm --print-size --defined-only` says of a program, a `TRACE` what
//! `valgrind --tool=lackey --trace-mem=yes` says of a run of it, `ORDER` a list for `ld.lld --symbol-ordering-file`.
//!
//! Cache line colouring (Hashemi, Kaeli and Calder, "Efficient procedure mapping using cache line coloring",
//! PLDI 1997): a function's colour is the set of the cache in which it begins. Functions are placed one after the other,
//! those that are entered most often first, each in the colour that leaves the traces the fewest misses with what is
//! placed already. The paper counts calls between two functions; this counts the misses of a simulated cache, as Gloy
//! and Smith's "Procedure placement using temporal-ordering information" (TOPLAS 1999) does with a summary of the trace.
//! Functions that no trace came by fill the gaps between colours.
//!
//! It needs nothing but the standard library, so that `rustc` alone compiles it.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::process::ExitCode;

/// Bytes of a line of the cache, sets, and lines of a set: 32 KiB, as nearly all x86-64 have it.
const LINE: u64 = 64;
const SETS: u64 = 64;
const WAYS: usize = 8;
/// A line of each set: what lies so far apart begins in the same.
const PAGE: u64 = LINE * SETS;
/// To what the linker aligns functions, bytes.
const ALIGNMENT: u64 = 16;
/// Executed bytes of each trace that count, four to an instruction, and in how many parts: from its middle on, where a run
/// does not begin any more, and all over the rest, so that all that comes up is in some.
const COUNTED: u64 = 4_000_000;
const PARTS: usize = 16;
/// A function that is entered less often than once in so many executed bytes lies anywhere.
const RARE: u64 = 800_000;

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let [symbols, traces @ ..] = &files[..] else {
        eprintln!("layout SYMBOLS TRACE... > ORDER");
        return ExitCode::FAILURE;
    };
    match layout(symbols, traces) {
        Ok(order) => {
            order.iter().for_each(|name| println!("{name}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn layout(symbols: &str, traces: &[String]) -> Result<Vec<String>, String> {
    let cannot = |path: &str| {
        let path = path.to_owned();
        move |error: io::Error| format!("{path}: {error}")
    };
    let read = |path: &str| {
        let file = std::fs::File::open(path).map_err(cannot(path))?;
        Ok::<_, String>(BufReader::with_capacity(1 << 20, file))
    };
    let mut program = Program::of(read(symbols)?).map_err(cannot(symbols))?;
    if program.functions.is_empty() {
        return Err(format!(
            "{symbols}: no function with its size; it is to be what `nm --print-size` says"
        ));
    }
    if traces.is_empty() {
        return Err("no trace: functions are placed by what a run executes".to_owned());
    }
    let mut visits = Vec::new();
    for trace in traces {
        let executed = executed(read(trace)?).map_err(cannot(trace))?;
        let visited = program.visits(&executed);
        if visited.is_empty() {
            return Err(format!(
                "{trace}: no instruction of the program; it is to be what `valgrind --tool=lackey --trace-mem=yes` says"
            ));
        }
        visits.extend(visited);
    }
    let linked = program.addresses();
    let coloured = program.coloured(&visits);
    let order = program.order(&coloured, &visits);
    let laid_out = program.laid_out(&order);
    eprintln!(
        "misses of the instruction cache in what counts of {} runs: {} as linked, {} so laid out",
        traces.len(),
        misses(&visits, &linked),
        misses(&visits, &laid_out),
    );
    Ok(order
        .iter()
        .map(|&f| program.functions[f].name.clone())
        .collect())
}

/// A function where it was linked to, in bytes from the program's beginning.
struct Function {
    address: u64,
    size: u64,
    name: String,
}

/// What is executed in one go: bytes `from..to` of a place, which is a function of the program or a page of
/// a library.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Visit {
    place: usize,
    from: u64,
    to: u64,
}

/// What may be executed, in two lists whose places count on: functions by their address, and pages of libraries as they
/// were met. These lie where they lie.
struct Program {
    functions: Vec<Function>,
    library: Vec<u64>,
}

impl Program {
    fn of(symbols: impl BufRead) -> io::Result<Self> {
        let function = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let size = u64::from_str_radix(words.next()?, 16).ok()?;
            let code = matches!(words.next()?, "t" | "T" | "w" | "W");
            let name = words.next()?.to_owned();
            (code && size > 0).then_some(Function {
                address,
                size,
                name,
            })
        };
        let mut functions = Vec::new();
        for line in symbols.lines() {
            functions.extend(function(&line?));
        }
        // Of several names of one function, the first.
        functions.sort_by_key(|f| f.address);
        let mut end = 0;
        functions.retain(|f| {
            let begins = f.address >= end;
            end = end.max(f.address + f.size);
            begins
        });
        Ok(Self {
            functions,
            library: Vec::new(),
        })
    }

    fn function_at(&self, address: u64) -> Option<usize> {
        let after = self.functions.partition_point(|f| f.address <= address);
        let f = after.checked_sub(1)?;
        (address - self.functions[f].address < self.functions[f].size).then_some(f)
    }

    /// The visits that are what was executed, each by its address and its bytes.
    fn visits(&mut self, executed: &[(u64, u64)]) -> Vec<Visit> {
        // Valgrind loads what may lie anywhere to one of two addresses, by its version.
        let entered = |base: u64| {
            let begins = |address: u64| {
                let f = self.function_at(address);
                f.is_some_and(|f| self.functions[f].address == address)
            };
            let begun = executed
                .iter()
                .filter(|(address, _)| begins(address.wrapping_sub(base)));
            begun.count()
        };
        let bases = [0, 0x10_8000, 0x40_0000].map(|base| (entered(base), base));
        let Some((1.., base)) = bases.into_iter().max() else {
            return Vec::new();
        };
        let visit = |&(address, bytes): &(u64, u64)| {
            let here = address.wrapping_sub(base);
            let (place, from) = match self.function_at(here) {
                Some(f) => (f, here - self.functions[f].address),
                None => (self.page(address - address % PAGE), address % PAGE),
            };
            Visit {
                place,
                from,
                to: from + bytes,
            }
        };
        executed.iter().map(visit).collect()
    }

    fn page(&mut self, address: u64) -> usize {
        let known = self.library.iter().position(|&page| page == address);
        self.functions.len()
            + known.unwrap_or_else(|| {
                self.library.push(address);
                self.library.len() - 1
            })
    }

    /// Where each place is, as linked.
    fn addresses(&self) -> Vec<u64> {
        self.functions
            .iter()
            .map(|f| f.address)
            .chain(self.library.iter().copied())
            .collect()
    }

    /// How often each place is entered from another one.
    fn entries(&self, visits: &[Visit]) -> Vec<u64> {
        let mut entries = vec![0; self.functions.len() + self.library.len()];
        let mut last = None;
        for visit in visits {
            entries[visit.place] += u64::from(last.replace(visit.place) != Some(visit.place));
        }
        entries
    }

    /// The functions that are entered often, the most often first, each with its colour.
    fn coloured(&self, visits: &[Visit]) -> Vec<(usize, u64)> {
        let entries = self.entries(visits);
        let bytes: u64 = visits.iter().map(|v| v.to - v.from).sum();
        let mut hot: Vec<usize> = (0..self.functions.len())
            .filter(|&f| entries[f] > bytes / RARE)
            .collect();
        hot.sort_by_key(|&f| std::cmp::Reverse(entries[f]));
        let mut placed = vec![true; entries.len()];
        hot.iter().for_each(|&f| placed[f] = false);
        let mut addresses = self.addresses();
        let coloured = hot.into_iter().map(|f| {
            placed[f] = true;
            let among: Vec<Visit> = visits.iter().copied().filter(|v| placed[v.place]).collect();
            // Of its own, whatever its colour: lines of two functions are never the same.
            let lines = (self.functions.len() + f) as u64 * (1 << 20);
            let misses_in = |colour: u64| {
                let mut addresses = addresses.clone();
                addresses[f] = lines + colour * LINE;
                (misses(&among, &addresses), colour)
            };
            let colour = least(misses_in);
            addresses[f] = lines + colour * LINE;
            (f, colour)
        });
        coloured.collect()
    }

    /// The functions as they are to follow each other: of those coloured always the one that leaves the least gap,
    /// and in the gap such as nobody entered.
    fn order(&self, coloured: &[(usize, u64)], visits: &[Visit]) -> Vec<usize> {
        let entries = self.entries(visits);
        // What the compiler has made has a section of its own, which an order can move.
        let moves = |f: &Function| f.name.starts_with("_ZN") || f.name.starts_with("_R");
        let mut fillers: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (i, f) in self.functions.iter().enumerate() {
            if entries[i] == 0 && moves(f) {
                fillers
                    .entry(f.size.next_multiple_of(ALIGNMENT))
                    .or_default()
                    .push(i);
            }
        }
        let mut end = self.functions[0].address;
        let mut left = coloured.to_vec();
        let mut order = Vec::new();
        let gap = |end: u64, colour: u64| (colour * LINE).wrapping_sub(end) % PAGE;
        while let Some(nearest) = (0..left.len()).min_by_key(|&i| gap(end, left[i].1)) {
            let (f, colour) = left.swap_remove(nearest);
            while let Some((&size, of_size)) = fillers.range_mut(..=gap(end, colour)).next_back() {
                order.extend(of_size.pop());
                if of_size.is_empty() {
                    fillers.remove(&size);
                }
                end += size;
            }
            order.push(f);
            end = (end + self.functions[f].size).next_multiple_of(ALIGNMENT);
        }
        order
    }

    /// Where each place is if the linker begins with these functions.
    fn laid_out(&self, order: &[usize]) -> Vec<u64> {
        let mut addresses = self.addresses();
        let mut end = self.functions[0].address;
        for &f in order {
            addresses[f] = end.next_multiple_of(ALIGNMENT);
            end = addresses[f] + self.functions[f].size;
        }
        addresses
    }
}

/// What counts of a trace: addresses, and how many bytes were executed from there before another address was.
fn executed(trace: impl BufRead) -> io::Result<Vec<(u64, u64)>> {
    let instruction = |line: &str| {
        let (address, size) = line.strip_prefix('I')?.trim().split_once(',')?;
        Some((
            u64::from_str_radix(address, 16).ok()?,
            size.parse::<u64>().ok()?,
        ))
    };
    let mut all: Vec<(u64, u64)> = Vec::new();
    for line in trace.lines() {
        let Some((address, size)) = instruction(&line?) else {
            continue;
        };
        match all.last_mut() {
            Some((begin, bytes)) if *begin + *bytes == address => *bytes += size,
            _ => all.push((address, size)),
        }
    }
    let all = &all[all.len() / 2..];
    let parts = all.chunks(all.len().div_ceil(PARTS).max(1));
    let counted = parts.flat_map(|part| {
        let mut left = COUNTED / PARTS as u64;
        part.iter().copied().take_while(move |&(_, bytes)| {
            let begins = left > 0;
            left = left.saturating_sub(bytes);
            begins
        })
    });
    Ok(counted.collect())
}

/// The colour with the least misses, the first of several; a share of the colours for each processor.
fn least(misses_in: impl Fn(u64) -> (u64, u64) + Sync) -> u64 {
    let threads = std::thread::available_parallelism()
        .map_or(1, |n| n.get() as u64)
        .min(SETS);
    let share = |first: u64| {
        (first..SETS)
            .step_by(threads as usize)
            .map(&misses_in)
            .min()
    };
    let least = std::thread::scope(|scope| {
        let share = &share;
        let shares: Vec<_> = (0..threads)
            .map(|first| scope.spawn(move || share(first)))
            .collect();
        shares
            .into_iter()
            .filter_map(|share| share.join().expect("nothing in it panics"))
            .min()
    });
    least.map_or(0, |(_, colour)| colour)
}

/// Misses of a cache that replaces the line that was not used for the longest time, with each place at its address.
fn misses(visits: &[Visit], addresses: &[u64]) -> u64 {
    let mut sets = [[(u64::MAX, 0u64); WAYS]; SETS as usize];
    let (mut now, mut misses, mut last) = (0, 0, u64::MAX);
    for visit in visits {
        let begin = addresses[visit.place];
        for line in (begin + visit.from) / LINE..=(begin + visit.to - 1) / LINE {
            if line == last {
                continue;
            }
            last = line;
            now += 1;
            let set = &mut sets[(line % SETS) as usize];
            let way = set
                .iter()
                .position(|&(held, _)| held == line)
                .unwrap_or_else(|| {
                    misses += 1;
                    let used = |way: &usize| set[*way].1;
                    (0..WAYS).min_by_key(used).unwrap_or(0)
                });
            set[way] = (line, now);
        }
    }
    misses
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions of these sizes one after the other, as `nm` tells of them, and one that nobody calls of each multiple
    /// of 16 bytes to a page.
    fn program(sizes: &[u64]) -> Program {
        let mut text = String::new();
        let mut at = 0x1_0000;
        for (i, &size) in sizes.iter().enumerate() {
            text += &format!("{at:016x} {size:016x} t _ZN{i}\n");
            at += size.next_multiple_of(ALIGNMENT);
        }
        for size in (16..=4_096).step_by(16) {
            text += &format!("{at:016x} {size:016x} T _ZNcold{size}\n");
            at += size;
        }
        Program::of(text.as_bytes()).unwrap()
    }

    fn called(program: &Program, functions: &[usize], times: usize) -> Vec<Visit> {
        let whole = |&f: &usize| Visit {
            place: f,
            from: 0,
            to: program.functions[f].size,
        };
        functions
            .iter()
            .map(whole)
            .collect::<Vec<_>>()
            .repeat(times)
    }

    #[test]
    fn more_lines_than_ways_in_one_set_miss_each_time() {
        let visits: Vec<Visit> = (0..9)
            .map(|place| Visit {
                place,
                from: 0,
                to: 1,
            })
            .collect();
        let apart: Vec<u64> = (0..9).map(|i| i * PAGE).collect();
        assert_eq!(misses(&visits[..8].repeat(10), &apart), 8);
        assert_eq!(misses(&visits.repeat(10), &apart), 90);
        // The same in two sets.
        let spread: Vec<u64> = (0..9).map(|i| i * (PAGE + LINE)).collect();
        assert_eq!(misses(&visits.repeat(10), &spread), 9);
    }

    #[test]
    fn functions_that_push_each_other_out_are_placed_apart() {
        // A page each, of which the last line is the only one that is executed.
        let program = program(&[4_096; 20]);
        let visits: Vec<Visit> = (0..20)
            .map(|place| Visit {
                place,
                from: 4_032,
                to: 4_096,
            })
            .collect::<Vec<_>>()
            .repeat(50);
        assert_eq!(misses(&visits, &program.addresses()), 1_000);
        let order = program.order(&program.coloured(&visits), &visits);
        assert_eq!(misses(&visits, &program.laid_out(&order)), 20);
    }

    #[test]
    fn an_order_gives_each_function_its_colour_and_names_none_twice() {
        let program = program(&[100, 700, 64, 4_000, 1_300, 16, 2_222, 900]);
        let visits = called(&program, &[0, 1, 2, 3, 0, 4, 5, 6, 7], 20);
        let coloured: Vec<(usize, u64)> = (0..8).map(|f| (f, (f as u64 * 23 + 5) % SETS)).collect();
        let order = program.order(&coloured, &visits);
        let laid_out = program.laid_out(&order);
        for (f, colour) in coloured {
            assert_eq!(laid_out[f] / LINE % SETS, colour, "function {f}");
            assert_eq!(laid_out[f] % LINE, 0, "function {f}");
        }
        let mut once = order.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), order.len());
    }

    #[test]
    fn the_middle_of_a_trace_is_visits_wherever_the_program_was_loaded() {
        let mut program = program(&[64, 64]);
        for base in [0, 0x10_8000, 0x40_0000] {
            // A function in two steps, a library, the other function's end; before it what a start executes.
            let after = [(0x1_0000, 4), (0x1_0004, 3), (0x1_0040, 2), (0x1_0070, 5)];
            let mut text = "==1== Lackey\nI  04000000,3\n S 1ffe,8\n".repeat(4);
            for (address, size) in after {
                text += &format!("I  {:08x},{size}\n L 1ffe,8\n", base + address);
            }
            text += "I  04a1b3f1,2\nI  04a1b3f3,2\n==1==\n";
            let visits = program.visits(&executed(text.as_bytes()).unwrap());
            let library = program.functions.len();
            let expected = [(0, 0, 7), (1, 0, 2), (1, 48, 53), (library, 0x3f1, 0x3f5)]
                .map(|(place, from, to)| Visit { place, from, to });
            assert_eq!(visits, expected, "{base:x}");
        }
    }

    #[test]
    fn what_is_no_trace_has_no_visits() {
        let mut program = program(&[64]);
        let text = "valgrind: cannot execute\nI  zz,3\nI  7\n";
        let executed = executed(text.as_bytes()).unwrap();
        assert!(program.visits(&executed).is_empty());
        assert!(program.visits(&[(0x99_0000, 4)]).is_empty());
    }
}
