//! The page as a whole: what it may never contain, and what a browser makes of it.

mod browser;
mod canvas;
mod page;
mod sample;
