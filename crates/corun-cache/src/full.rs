//! A fully associative LRU cache of any size: what a miss-rate curve describes.

use rustc_hash::FxHashMap;

use crate::cache::{Line, Touch};

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Node {
    line: u64,
    newer: u32,
    older: u32,
    owner: u16,
}

/// Lines in a list from the newest to the oldest, found by a hash table.
#[derive(Debug, Clone)]
pub struct FullyAssociative {
    capacity: usize,
    places: FxHashMap<u64, u32>,
    nodes: Vec<Node>,
    newest: u32,
    oldest: u32,
}

impl FullyAssociative {
    /// An empty cache of so many lines (at least one, at most 2^30).
    pub fn new(lines: u64) -> Self {
        Self {
            capacity: lines.max(1) as usize,
            places: FxHashMap::default(),
            nodes: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// `owner` touches a line of a process.
    #[inline]
    pub fn access(&mut self, line: u64, process: u64, owner: usize) -> Touch {
        let line = Line::new(line, process).0;
        if self.newest != NONE && self.nodes[self.newest as usize].line == line {
            return Touch::Hit;
        }
        if let Some(&place) = self.places.get(&line) {
            self.unlink(place);
            self.link(place);
            return Touch::Hit;
        }
        self.fill(line, owner as u16)
    }

    fn fill(&mut self, line: u64, owner: u16) -> Touch {
        let node = Node { line, newer: NONE, older: NONE, owner };
        if self.nodes.len() < self.capacity {
            let place = self.nodes.len() as u32;
            self.nodes.push(node);
            self.places.insert(line, place);
            self.link(place);
            return Touch::Miss { evicted: None };
        }
        let place = self.oldest;
        self.unlink(place);
        let left = std::mem::replace(&mut self.nodes[place as usize], node);
        self.places.remove(&left.line);
        self.places.insert(line, place);
        self.link(place);
        Touch::Miss { evicted: Some(usize::from(left.owner)) }
    }

    fn unlink(&mut self, place: u32) {
        let Node { newer, older, .. } = self.nodes[place as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }

    /// Makes it the newest.
    fn link(&mut self, place: u32) {
        let before = std::mem::replace(&mut self.newest, place);
        let node = &mut self.nodes[place as usize];
        node.newer = NONE;
        node.older = before;
        match before {
            NONE => self.oldest = place,
            before => self.nodes[before as usize].newer = place,
        }
    }
}
