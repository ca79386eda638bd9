//! Cache lines: how many of them a set of texels covers, and the loads of a subgroup one after the other.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::View;

/// Texels that one line of a cache holds (`T_cache` of the paper): a rectangle of the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LineShape {
    /// Columns, at least 1.
    pub width: u32,
    /// Rows, at least 1.
    pub height: u32,
}

impl LineShape {
    /// Texels of a line.
    pub fn texels(self) -> u32 {
        self.width * self.height
    }

    /// The line that holds texel (x, y).
    fn of(self, [x, y]: [u32; 2]) -> [u32; 2] {
        [x / self.width, y / self.height]
    }

    /// `N_covered` of a set of texels.
    pub fn covered(self, texels: impl IntoIterator<Item = [u32; 2]>) -> u64 {
        texels.into_iter().map(|texel| self.of(texel)).collect::<FxHashSet<_>>().len() as u64
    }

    /// `N_covered` of a rectangle of texels at an origin, without looking at each.
    pub fn covered_by_rectangle(self, origin: [u32; 2], [width, height]: [u32; 2]) -> u64 {
        if width == 0 || height == 0 {
            return 0;
        }
        let lines = |start: u32, length: u32, line: u32| {
            let last = u64::from(start) + u64::from(length) - 1;
            last / u64::from(line) - u64::from(start / line) + 1
        };
        lines(origin[0], width, self.width) * lines(origin[1], height, self.height)
    }
}

/// A run of indices of one axis: `count` of them, `step` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    /// Axis of the view.
    pub axis: usize,
    /// Number of indices.
    pub count: u32,
    /// Elements from one to the next.
    pub step: u32,
}

/// What a subgroup loads: in one instruction each of its lanes one texel, and one instruction after the other. Lane and
/// instruction are numbers in mixed radix over their spreads, innermost first. The order of `instructions` is the
/// direction of a reduction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Loads {
    /// Where the lanes are.
    pub lanes: Vec<Spread>,
    /// Where an instruction moves them.
    pub instructions: Vec<Spread>,
    /// Instructions that are issued before the first is waited for; 0 means 1. What they miss in one line comes once.
    pub together: u32,
}

/// What loads cost a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// Instructions that load anything.
    pub instructions: u64,
    /// Texels that their lanes want.
    pub wanted: u64,
    /// Lines that they touch, each counted once for every instruction.
    pub lines: u64,
    /// Different texels of all instructions.
    pub texels: u64,
    /// Lines brought into the cache.
    pub fills: u64,
}

impl Coverage {
    /// Mean number of lines of one instruction: `N_inst`.
    pub fn lines_per_instruction(&self) -> f64 {
        self.lines as f64 / self.instructions.max(1) as f64
    }

    /// Mean number of lines for each texel that a lane wants, at most 1.
    pub fn lines_per_load(&self) -> f64 {
        self.lines as f64 / self.wanted.max(1) as f64
    }

    /// Share of the bytes brought into the cache that are wanted: `E` of the paper, above 0 and at most 1.
    pub fn efficiency(&self, line: LineShape) -> f64 {
        if self.fills == 0 { 1.0 } else { self.texels as f64 / (self.fills * u64::from(line.texels())) as f64 }
    }
}

impl Loads {
    /// One past the greatest index along each axis.
    pub fn reach(&self) -> [u32; 4] {
        let mut reach = [1; 4];
        for s in self.lanes.iter().chain(&self.instructions) {
            reach[s.axis] += s.count.saturating_sub(1) * s.step;
        }
        reach
    }

    /// The same loads without the spreads of one number.
    pub fn essential(&self) -> Self {
        let many = |spreads: &[Spread]| spreads.iter().copied().filter(|s| s.count != 1).collect();
        Self { lanes: many(&self.lanes), instructions: many(&self.instructions), together: self.together }
    }

    /// The index that each lane of each instruction wants.
    pub fn indices(&self) -> impl Iterator<Item = impl Iterator<Item = [u32; 4]>> {
        numbers(&self.instructions)
            .map(move |base| numbers(&self.lanes).map(move |lane| std::array::from_fn(|axis| base[axis] + lane[axis])))
    }

    /// The lines that the instructions touch, and those they bring into a cache of `capacity` lines that forgets what was
    /// not wanted for longest. `texel` places an index; `None` is not loaded.
    pub fn coverage(&self, line: LineShape, capacity: usize, texel: impl Fn([u32; 4]) -> Option<[u32; 2]>) -> Coverage {
        let lanes: Vec<[u32; 4]> = numbers(&self.lanes).collect();
        let mut cache = Cache { capacity: capacity.max(1), ..Cache::default() };
        let (mut wanted, mut lines) = (Vec::with_capacity(lanes.len()), Vec::with_capacity(lanes.len()));
        let (mut issued, mut texels) = (Vec::new(), Vec::with_capacity(32 * lanes.len()));
        let mut coverage = Coverage { instructions: 0, wanted: 0, lines: 0, texels: 0, fills: 0 };
        for (base, number) in numbers(&self.instructions).zip(1..) {
            let index = |lane: &[u32; 4]| texel(std::array::from_fn(|axis| base[axis] + lane[axis]));
            wanted.clear();
            wanted.extend(lanes.iter().filter_map(index));
            coverage.instructions += u64::from(!wanted.is_empty());
            coverage.wanted += wanted.len() as u64;
            sort_and_dedup(&mut wanted);
            lines.clear();
            lines.extend(wanted.iter().map(|&texel| line.of(texel)));
            sort_and_dedup(&mut lines);
            coverage.lines += lines.len() as u64;
            texels.extend_from_slice(&wanted);
            issued.extend_from_slice(&lines);
            if number % self.together.max(1) == 0 {
                cache.touch_all(&mut issued);
            }
        }
        cache.touch_all(&mut issued);
        sort_and_dedup(&mut texels);
        Coverage { texels: texels.len() as u64, fills: cache.fills, ..coverage }
    }
}

/// Sorts runs of sorted texels (or lines), each once.
fn sort_and_dedup(texels: &mut Vec<[u32; 2]>) {
    // As one number each they compare in one step.
    texels.sort_by_key(|&[x, y]| u64::from(x) << 32 | u64::from(y));
    texels.dedup();
}

impl View {
    /// [`Loads::coverage`] of this view, counted in slots; what lies outside the padded box is not loaded.
    pub fn coverage(&self, loads: &Loads, line: LineShape, capacity: usize) -> Coverage {
        loads.coverage(line, capacity, |index| {
            let inside = self.axes.iter().zip(index).all(|(axis, i)| i < axis.padded);
            inside.then(|| self.address(&index[..self.axes.len()])).map(|at| [at.x, at.y])
        })
    }
}

/// Every combination of the spreads' steps, the first spread innermost.
fn numbers(spreads: &[Spread]) -> impl Iterator<Item = [u32; 4]> {
    let count: u32 = spreads.iter().map(|s| s.count).product();
    (0..count).map(move |mut n| {
        let mut index = [0; 4];
        for s in spreads {
            index[s.axis] += n % s.count * s.step;
            n /= s.count;
        }
        index
    })
}

/// A cache, and the uses of its lines in order.
#[derive(Default)]
struct Cache {
    capacity: usize,
    clock: u64,
    /// When each line that is held was used last.
    held: FxHashMap<[u32; 2], u64>,
    /// Uses, those that were not the last ones of their line among them.
    uses: VecDeque<([u32; 2], u64)>,
    fills: u64,
}

impl Cache {
    /// Touches the lines of loads that were issued together, and empties the list.
    fn touch_all(&mut self, lines: &mut Vec<[u32; 2]>) {
        sort_and_dedup(lines);
        lines.drain(..).for_each(|line| self.touch(line));
    }

    fn touch(&mut self, line: [u32; 2]) {
        self.clock += 1;
        self.uses.push_back((line, self.clock));
        if self.held.insert(line, self.clock).is_some() {
            return;
        }
        self.fills += 1;
        while self.held.len() > self.capacity
            && let Some((oldest, used)) = self.uses.pop_front()
        {
            if self.held.get(&oldest) == Some(&used) {
                self.held.remove(&oldest);
            }
        }
    }
}
