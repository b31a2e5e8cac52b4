//! An ordered set that finds its k-th lowest element in logarithmic time.
//!
//! Singh's scheduler keeps the size of each subtree beside a red-black tree. A weight-balanced tree needs that size for
//! its balance anyway, so it has no colours. The two constants are those that Hirai and Yamamoto proved correct
//! ("Balancing weight-balanced trees", 2011).

use std::cmp::Ordering;

/// A subtree may weigh at most this many times the other one.
const DELTA: usize = 3;
/// Below this ratio of the inner to the outer grandchild, one rotation is enough.
const GAMMA: usize = 2;

type Link<K> = Option<Box<Node<K>>>;

/// A set of elements in their order.
#[derive(Debug, Clone)]
pub struct RankedSet<K> {
    root: Link<K>,
}

#[derive(Debug, Clone)]
struct Node<K> {
    key: K,
    /// Elements in this subtree, this one included.
    size: usize,
    left: Link<K>,
    right: Link<K>,
}

impl<K> Default for RankedSet<K> {
    fn default() -> Self {
        Self { root: None }
    }
}

impl<K: Ord> RankedSet<K> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        size(self.root.as_deref())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Adds an element; `false` if it is there already.
    pub fn insert(&mut self, key: K) -> bool {
        insert(&mut self.root, key)
    }

    /// Removes an element; `false` if it is not there.
    pub fn remove(&mut self, key: &K) -> bool {
        remove(&mut self.root, key)
    }

    /// The element that `rank` others are below.
    pub fn nth(&self, mut rank: usize) -> Option<&K> {
        let mut link = self.root.as_deref();
        while let Some(node) = link {
            let below = size(node.left.as_deref());
            link = match rank.cmp(&below) {
                Ordering::Less => node.left.as_deref(),
                Ordering::Equal => return Some(&node.key),
                Ordering::Greater => {
                    rank -= below + 1;
                    node.right.as_deref()
                }
            };
        }
        None
    }

    /// The highest element.
    pub fn last(&self) -> Option<&K> {
        self.nth(self.len().checked_sub(1)?)
    }
}

fn size<K>(link: Option<&Node<K>>) -> usize {
    link.map_or(0, |node| node.size)
}

fn insert<K: Ord>(link: &mut Link<K>, key: K) -> bool {
    let Some(node) = link else {
        *link = Some(Box::new(Node { key, size: 1, left: None, right: None }));
        return true;
    };
    let is_new = match key.cmp(&node.key) {
        Ordering::Less => insert(&mut node.left, key),
        Ordering::Equal => false,
        Ordering::Greater => insert(&mut node.right, key),
    };
    balance(link);
    is_new
}

fn remove<K: Ord>(link: &mut Link<K>, key: &K) -> bool {
    let Some(node) = link else { return false };
    let was_there = match key.cmp(&node.key) {
        Ordering::Less => remove(&mut node.left, key),
        Ordering::Greater => remove(&mut node.right, key),
        Ordering::Equal => {
            *link = match (node.left.take(), node.right.take()) {
                (None, other) | (other, None) => other,
                (left, mut right) => take_first(&mut right).map(|mut first| {
                    (first.left, first.right) = (left, right);
                    first
                }),
            };
            true
        }
    };
    balance(link);
    was_there
}

fn take_first<K>(link: &mut Link<K>) -> Link<K> {
    let node = link.as_mut()?;
    let first = if node.left.is_some() {
        take_first(&mut node.left)
    } else {
        let mut first = link.take()?;
        *link = first.right.take();
        Some(first)
    };
    balance(link);
    first
}

/// Restores the size and the balance of a subtree whose own subtrees are in order.
fn balance<K>(link: &mut Link<K>) {
    let Some(node) = link else { return };
    let weight = |link: Option<&Node<K>>| size(link) + 1;
    let (left, right) = (weight(node.left.as_deref()), weight(node.right.as_deref()));
    node.size = left + right - 1;
    if right > DELTA * left {
        if let Some(heavy) = &node.right
            && weight(heavy.left.as_deref()) >= GAMMA * weight(heavy.right.as_deref())
        {
            rotate_right(&mut node.right);
        }
        rotate_left(link);
    } else if left > DELTA * right {
        if let Some(heavy) = &node.left
            && weight(heavy.right.as_deref()) >= GAMMA * weight(heavy.left.as_deref())
        {
            rotate_left(&mut node.left);
        }
        rotate_right(link);
    }
}

/// The right child becomes the root of the subtree.
fn rotate_left<K>(link: &mut Link<K>) {
    let Some(mut node) = link.take() else { return };
    let Some(mut risen) = node.right.take() else {
        *link = Some(node);
        return;
    };
    node.right = risen.left.take();
    resize(&mut node);
    risen.left = Some(node);
    resize(&mut risen);
    *link = Some(risen);
}

/// The left child becomes the root of the subtree.
fn rotate_right<K>(link: &mut Link<K>) {
    let Some(mut node) = link.take() else { return };
    let Some(mut risen) = node.left.take() else {
        *link = Some(node);
        return;
    };
    node.left = risen.right.take();
    resize(&mut node);
    risen.right = Some(node);
    resize(&mut risen);
    *link = Some(risen);
}

fn resize<K>(node: &mut Node<K>) {
    node.size = size(node.left.as_deref()) + size(node.right.as_deref()) + 1;
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Checks sizes and balance of all subtrees, and returns the height.
    fn height(link: Option<&Node<u32>>) -> usize {
        let Some(node) = link else { return 0 };
        let (left, right) = (size(node.left.as_deref()) + 1, size(node.right.as_deref()) + 1);
        assert_eq!(node.size, left + right - 1);
        assert!(left <= DELTA * right && right <= DELTA * left, "{left} beside {right}");
        1 + height(node.left.as_deref()).max(height(node.right.as_deref()))
    }

    #[test]
    fn a_million_random_operations_agree_with_a_sorted_list() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (mut set, mut list) = (RankedSet::default(), Vec::<u32>::new());
        for step in 0..1_000_000_u32 {
            // The number of elements goes up and down between 0 and some hundreds.
            let key = rng.random_range(0..400);
            let grows = step / 5_000 % 2 == 0;
            let place = list.binary_search(&key);
            if rng.random_bool(if grows { 0.7 } else { 0.3 }) {
                assert_eq!(set.insert(key), place.is_err());
                if let Err(place) = place {
                    list.insert(place, key);
                }
            } else {
                assert_eq!(set.remove(&key), place.is_ok());
                if let Ok(place) = place {
                    list.remove(place);
                }
            }
            let rank = rng.random_range(0..=list.len());
            assert_eq!(set.nth(rank), list.get(rank));
            assert_eq!((set.last(), set.len()), (list.last(), list.len()));
            assert_eq!(set.is_empty(), list.is_empty());
            if step % 1_000 == 0 {
                height(set.root.as_deref());
            }
        }
    }

    #[test]
    fn elements_in_their_order_make_no_list_of_it() {
        let mut set = RankedSet::default();
        (0..100_000).for_each(|key| assert!(set.insert(key)));
        // Heights are at most log(n + 1) / log(4 / 3): 40. An even tree has 17.
        let height = height(set.root.as_deref());
        assert!((17..=40).contains(&height), "{height}");
    }
}
