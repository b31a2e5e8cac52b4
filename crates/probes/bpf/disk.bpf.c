/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Whose bytes go to which device, also when the kernel sends them long after.
 *
 * A process that makes a folio of the page cache dirty owns it until it is sent to the device, by
 * another task: a flusher, a journal, the caller of fsync. Requests are looked at where file
 * systems hand them to the block layer, since there the pages still tell whose they are.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "disk.h"
#include "storage.h"

struct holding {
	struct file file;
	struct owner owner;
	__u32 dirty;   /* bytes */
	bool by_block; /* the file system tells of each block */
	bool mixed;    /* some of its pages have other owners: see `pages` */
	bool sent;     /* something of it has been written */
	bool unused;
};

/* Where in which file: unlike its address, that of a folio stays when the kernel moves it. */
struct place {
	__u64 mapping;
	__u64 index;
};

/* Folio -> whose it is. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PAGES);
	__type(key, struct place);
	__type(value, struct holding);
} folios SEC(".maps");

/* Page of a folio that several have written to -> whose it is. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PAGES);
	__type(key, struct place);
	__type(value, struct owner);
} pages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SUMS);
	__type(key, struct whose);
	__type(value, struct sums);
} sums SEC(".maps");

/* What found no room there: by process and device, and if there are too many processes, by device. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, FOLDED);
	__type(key, struct whose);
	__type(value, struct sums);
} folded SEC(".maps");

/* Devices that others lie on as a whole. The loader says which. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CARRIERS);
	__type(key, __u32);
	__type(value, __u8);
} carriers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FILES);
	__type(key, struct file);
	__type(value, struct known);
} files SEC(".maps");

/* Too large for the stack of a program. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct known);
} blank SEC(".maps");

struct lost lost;
/* Set by the loader. */
__u32 page_shift = 12;

static const __u32 zero = 0;

/* A request has no more pages than this: 256 MiB. */
#define MOST_PARTS (1 << 16)

static __always_inline void add(__u64 *sum, __u64 much)
{
	__sync_fetch_and_add(sum, much);
}

static __always_inline struct owner owner_of(struct task_struct *task)
{
	__u64 start = task->group_leader->start_time;

	/* In units of a microsecond and a bit: two processes of one number are further apart. */
	return (struct owner){ .tgid = task->tgid, .started = start >> 10 };
}

static __always_inline bool same(struct owner one, struct owner other)
{
	return one.tgid == other.tgid && one.started == other.started;
}

static __always_inline struct sums *fresh_sums(void *map, struct whose *whose)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sums fresh = {};

	/* Later the process may have gone; a thread is named as its process. */
	if ((__u32)task->tgid == whose->owner.tgid)
		BPF_CORE_READ_STR_INTO(&fresh.command, task, group_leader, comm);
	bpf_map_update_elem(map, whose, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, whose);
}

/* The sums of a process in a file; of all its files on that device where there is no room for more. */
static __always_inline struct sums *sums_of(struct owner owner, struct file file, __u64 bytes)
{
	struct whose whose = { .file = file, .owner = owner };
	struct sums *known = bpf_map_lookup_elem(&sums, &whose);

	if (!known)
		known = fresh_sums(&sums, &whose);
	if (known)
		return known;
	whose.file = (struct file){ .device = file.device };
	known = bpf_map_lookup_elem(&folded, &whose);
	if (!known)
		known = fresh_sums(&folded, &whose);
	if (!known)
		add(&lost.sums, bytes);
	return known;
}

/* A file's path from the root of its file system, as far as there is room. */
static __always_inline void name(struct known *known, struct inode *inode)
{
	struct hlist_node *alias = BPF_CORE_READ(inode, i_dentry.first);
	struct dentry *dentry, *parent;

	known->named = 0;
	if (!alias)
		return;
	if (bpf_core_field_exists(struct dentry___new, d_alias))
		dentry = (void *)alias - bpf_core_field_offset(struct dentry___new, d_alias);
	else
		dentry = (void *)alias - bpf_core_field_offset(struct dentry, d_u.d_alias);
	for (__u32 step = 0; step < STEPS; step++) {
		parent = BPF_CORE_READ(dentry, d_parent);
		if (!parent || parent == dentry)
			return;
		bpf_probe_read_kernel_str(known->path[step], STEP, BPF_CORE_READ(dentry, d_name.name));
		known->named = step + 1;
		dentry = parent;
	}
}

static __always_inline struct known *known_of(struct file file, struct inode *inode)
{
	struct known *known = bpf_map_lookup_elem(&files, &file), *fresh;

	if (known)
		return known;
	fresh = bpf_map_lookup_elem(&blank, &zero);
	if (!fresh)
		return NULL;
	fresh->wrote = fresh->read = 0;
	name(fresh, inode);
	bpf_map_update_elem(&files, &file, fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&files, &file);
}

static __always_inline bool is_of_kind(struct inode *inode, __u32 kind)
{
	return (BPF_CORE_READ(inode, i_mode) & S_IFMT) == kind;
}

/* A file that a program has open. The inode for the metadata of btrfs has the mode of a regular file
 * too (seen on Linux 6.18), but never a name. A function of its own: Linux 6.1 allows on_request, step and
 * forget_page 512 bytes of stack together. */
static __noinline bool is_open_file(struct inode *inode)
{
	return is_of_kind(inode, S_IFREG) && BPF_CORE_READ(inode, i_dentry.first);
}

/* A file where its file system keeps it. */
static __always_inline struct file file_of(struct inode *inode)
{
	struct block_device *device = BPF_CORE_READ(inode, i_sb, s_bdev);

	if (is_of_kind(inode, S_IFBLK))
		return (struct file){ .inode = ITSELF, .device = BPF_CORE_READ(inode, i_rdev) };
	return (struct file){
		.inode = BPF_CORE_READ(inode, i_ino),
		.device = device ? BPF_CORE_READ(device, bd_dev) : BPF_CORE_READ(inode, i_sb, s_dev),
		.generation = BPF_CORE_READ(inode, i_generation),
	};
}

static __always_inline struct place place_of(struct folio *folio)
{
	return (struct place){
		.mapping = (__u64)BPF_CORE_READ(folio, mapping),
		.index = BPF_CORE_READ(folio, index),
	};
}

/* The one who runs now has made so many bytes of a folio dirty, in its page number `page`. */
static __always_inline void dirtied(struct folio *folio, __u64 page, struct inode *inode,
				    __u32 bytes, bool by_block)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owner owner = owner_of(task);
	struct place place = place_of(folio);
	struct holding *held = bpf_map_lookup_elem(&folios, &place);
	struct file file;
	struct sums *s;

	/* A journal that keeps files' contents writes them back for the process that made them dirty. Threads
	 * of the kernel that write by themselves (a loop device, nfsd) own what they make dirty. */
	if (held && task->flags & PF_KTHREAD && !same(held->owner, owner))
		return;
	/* The kernel skipped the event of its first block, so the event of the folio has counted it whole. */
	if (held && by_block && !held->by_block && !held->sent)
		return;
	if (held && by_block) {
		file = held->file;
		__sync_fetch_and_add(&held->dirty, bytes);
		if (!same(held->owner, owner)) {
			held->mixed = true;
			place.index += page;
			if (bpf_map_update_elem(&pages, &place, &owner, BPF_ANY))
				add(&lost.pages, bytes);
		}
	} else {
		struct holding fresh = { .owner = owner, .dirty = bytes, .by_block = by_block };

		file = fresh.file = file_of(inode);
		if (bpf_map_update_elem(&folios, &place, &fresh, BPF_ANY))
			add(&lost.pages, bytes);
		known_of(file, inode);
	}
	s = sums_of(owner, file, 0);
	if (!s)
		return;
	add(&s->dirtied, bytes);
	s->last = bpf_ktime_get_ns();
}

/* ext4's journal is written by a thread of its own. */
static __always_inline bool is_journal(struct task_struct *task)
{
	return task->comm[0] == 'j' && task->comm[1] == 'b' && task->comm[2] == 'd' &&
	       task->comm[3] == '2';
}

/* A block becomes dirty: ext4 and others that keep heads of blocks. A device's own pages have no owner. */
SEC("tp_btf/block_dirty_buffer")
int BPF_PROG(on_block, struct buffer_head *bh)
{
	struct folio *folio;
	struct inode *inode;
	__u64 offset;

	if (bh->b_state & 1 << BH_DIRTY)
		return 0;
	/* Read as numbers where there is arithmetic, which the verifier allows on no pointer of the kernel's. */
	folio = (struct folio *)BPF_CORE_READ(bh, b_page);
	if (!bh->b_page || !bh->b_page->mapping)
		return 0;
	inode = bh->b_page->mapping->host;
	if (!inode || (inode->i_mode & S_IFMT) != S_IFREG)
		return 0;
	offset = (__u64)BPF_CORE_READ(bh, b_data) & (folio_size(folio, page_shift) - 1);
	dirtied(folio, offset >> page_shift, inode, bh->b_size, true);
	return 0;
}

/* A folio becomes dirty. Where its blocks were told before, that is known. Of a device's own pages
 * those count that a process writes itself. */
SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(on_folio, struct folio *folio, struct address_space *mapping)
{
	struct inode *inode = mapping ? BPF_CORE_READ(mapping, host) : NULL;
	struct task_struct *task = bpf_get_current_task_btf();
	struct place place = place_of(folio);
	struct holding *held;

	if (!inode || (!is_open_file(inode) &&
		       (!is_of_kind(inode, S_IFBLK) || task->flags & PF_KTHREAD)))
		return 0;
	held = bpf_map_lookup_elem(&folios, &place);
	if (held && held->by_block)
		return 0;
	dirtied(folio, 0, inode, folio_size(folio, page_shift), false);
	return 0;
}

static long forget_page(__u32 number, struct place *place)
{
	struct place page = { .mapping = place->mapping, .index = place->index + number };

	bpf_map_delete_elem(&pages, &page);
	return 0;
}

/* Forgets whose a folio is. */
static __always_inline void forget(struct holding *held, struct folio *folio, struct place *place)
{
	if (held->mixed)
		bpf_loop(folio_size(folio, page_shift) >> page_shift, forget_page, place, 0);
	bpf_map_delete_elem(&folios, place);
}

/* A folio leaves the page cache: what is dirty of it is never written. Where only folios are told, one
 * that was written may have had clean parts, and nothing is left of it. */
SEC("tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(on_delete, struct folio *folio)
{
	struct place place = place_of(folio);
	struct holding *held = bpf_map_lookup_elem(&folios, &place);
	struct sums *s;

	if (!held)
		return 0;
	if (held->dirty && (held->by_block || !held->sent)) {
		s = sums_of(held->owner, held->file, held->dirty);
		if (s) {
			add(&s->dropped, held->dirty);
			s->last = bpf_ktime_get_ns();
		}
	}
	forget(held, folio, &place);
	return 0;
}

/* A request, while it is looked through. */
struct walk {
	const struct bio_vec *vectors;
	__u32 left;   /* bytes of the request */
	__u32 vector;
	__u32 done;   /* bytes of that vector */
	__u32 device;
	__u64 now;
	struct owner me;
	bool is_read;
	bool is_kernel; /* sent by a thread of the kernel's own */
	bool is_journal;
	bool is_meta;
	bool is_stacked; /* a device that lies on this one has sent it on */
	bool is_held;    /* the device is a file system's, or another device's */
};

/* Who made a part of a folio dirty that is sent away now; (0, 0) if that was before we watched. */
static __always_inline struct owner taken(struct folio *folio, __u64 page, __u32 bytes)
{
	struct place place = place_of(folio), page_place = place;
	struct holding *held = bpf_map_lookup_elem(&folios, &place);
	struct owner owner = {}, *other;

	if (!held)
		return owner;
	owner = held->owner;
	page_place.index += page;
	if (held->mixed) {
		other = bpf_map_lookup_elem(&pages, &page_place);
		if (other) {
			owner = *other;
			bpf_map_delete_elem(&pages, &page_place);
		}
	}
	held->sent = true;
	if (held->dirty <= bytes)
		forget(held, folio, &place);
	else
		__sync_fetch_and_add(&held->dirty, -bytes);
	return owner;
}

static __always_inline struct holding *holding_of(struct folio *folio)
{
	struct place place = place_of(folio);

	return bpf_map_lookup_elem(&folios, &place);
}

/* Counts a burst if the last request of the same was long ago. */
static __always_inline void count_burst(__u64 *bursts, __u64 *last, struct walk *walk)
{
	if (walk->now - *last > BURST_NS)
		add(bursts, 1);
	*last = walk->now;
}

/* The file whose folio this is; none of what is no file's. */
static __always_inline struct inode *inode_of(struct folio *folio)
{
	struct address_space *mapping = BPF_CORE_READ(folio, mapping);
	struct inode *inode;

	/* The lowest bits mark what is no file's: memory of a process. */
	if (!mapping || (__u64)mapping & 3)
		return NULL;
	inode = BPF_CORE_READ(mapping, host);
	/* Pages of the kernel's own use the place for something else. */
	return inode && BPF_CORE_READ(inode, i_mapping) == mapping ? inode : NULL;
}

/* Of a file system on several devices, or on one that is not its own, the device carries the bytes. */
static __always_inline void carried(struct walk *walk, __u32 bytes)
{
	struct file stacked = { .device = walk->device, .inode = STACKED };
	struct owner no_owner = {};
	struct sums *s = sums_of(no_owner, stacked, bytes);

	if (!s)
		return;
	add(walk->is_read ? &s->stacked_read : &s->stacked, bytes);
	count_burst(walk->is_read ? &s->reads : &s->bursts,
		    walk->is_read ? &s->fetched : &s->sent, walk);
	s->last = walk->now;
}

/* Counts bytes of the page cache that go to their file. */
static __always_inline void wrote_back(struct walk *walk, struct folio *folio, __u64 page,
				       struct inode *inode, __u32 bytes)
{
	struct file file = file_of(inode);
	struct known *known = known_of(file, inode);
	struct owner owner = taken(folio, page, bytes);
	struct sums *s;

	if (file.device != walk->device)
		carried(walk, bytes);
	s = sums_of(owner, file, bytes);
	if (!s)
		return;
	add(&s->written, bytes);
	s->last = walk->now;
	if (known)
		count_burst(&s->bursts, &known->wrote, walk);
}

/* Counts so many bytes of a folio in a request for writing. */
static __always_inline void wrote(struct walk *walk, struct folio *folio, __u64 page, __u32 bytes)
{
	bool from_cache = in_writeback(folio);
	struct inode *inode = inode_of(folio);
	struct file no_file = { .device = walk->device, .inode = walk->is_stacked ? STACKED : 0 };
	struct owner no_owner = {};
	bool is_direct = !walk->is_kernel && !walk->is_meta && !from_cache;
	struct sums *s;

	/* The journal's thread sends files' contents too, before what tells of them; and what a journal
	 * kept whole is sent to its place as the journal's blocks are. No process owns btrfs's metadata. */
	if (!walk->is_stacked && inode &&
	    ((is_of_kind(inode, S_IFREG) &&
	      (walk->is_meta ? !walk->is_journal && is_open_file(inode) : from_cache)) ||
	     (is_of_kind(inode, S_IFBLK) && from_cache && !walk->is_meta && !walk->is_held))) {
		wrote_back(walk, folio, page, inode, bytes);
		return;
	}
	s = sums_of(is_direct && !walk->is_stacked ? walk->me : no_owner, no_file, bytes);
	if (!s)
		return;
	if (walk->is_stacked)
		add(&s->stacked, bytes);
	else if (is_direct)
		add(&s->direct, bytes);
	else if (walk->is_journal)
		add(&s->journal, bytes);
	else if (from_cache && !inode)
		add(&s->swap, bytes);
	else
		add(&s->metadata, bytes);
	count_burst(&s->bursts, &s->sent, walk);
	s->last = walk->now;
}

static __always_inline void was_read(struct walk *walk, struct folio *folio, __u32 bytes)
{
	struct inode *inode = inode_of(folio);
	struct file file = { .device = walk->device, .inode = walk->is_stacked ? STACKED : 0 };
	struct owner no_owner = {};
	struct known *known = NULL;
	struct sums *s;

	if (!walk->is_stacked && inode && is_open_file(inode)) {
		file = file_of(inode);
		if (file.device != walk->device)
			carried(walk, bytes);
		known = known_of(file, inode);
	}
	s = sums_of(walk->is_stacked ? no_owner : walk->me, file, bytes);
	if (!s)
		return;
	add(walk->is_stacked ? &s->stacked_read : &s->read, bytes);
	count_burst(&s->reads, known ? &known->read : &s->fetched, walk);
	s->last = walk->now;
}

/* Counts what a request holds of one folio, and goes on behind it. Ends the loop with 1. */
static long step(__u32 number, struct walk *walk)
{
	struct bio_vec vector;
	struct holding *held;
	struct folio *folio;
	struct page *page;
	__u64 offset, in_folio, in_page, size;
	__u32 bytes;

	if (!walk->left)
		return 1;
	if (bpf_probe_read_kernel(&vector, sizeof(vector), &walk->vectors[walk->vector]))
		return 1;
	if (walk->done >= vector.bv_len) {
		walk->vector++;
		walk->done = 0;
		return 0;
	}
	offset = vector.bv_offset + walk->done;
	page = page_behind(vector.bv_page, offset >> page_shift);
	folio = folio_of(page);
	size = folio_size(folio, page_shift);
	in_page = offset & ((1ULL << page_shift) - 1);
	in_folio = (pages_between(folio, page) << page_shift) + in_page;
	bytes = vector.bv_len - walk->done;
	/* A folio of several owners goes page by page. */
	if (in_folio < size && bytes > size - in_folio)
		bytes = size - in_folio;
	held = holding_of(folio);
	if (held && held->mixed && bytes > (1ULL << page_shift) - in_page)
		bytes = (1ULL << page_shift) - in_page;
	if (bytes > walk->left)
		bytes = walk->left;
	if (walk->is_read)
		was_read(walk, folio, bytes);
	else
		wrote(walk, folio, in_folio >> page_shift, bytes);
	walk->left -= bytes;
	walk->done += bytes;
	return 0;
}

/* Zeroes that a device is to write have no pages. */
static __always_inline void wrote_zeroes(struct walk *walk)
{
	struct file no_file = { .device = walk->device };
	struct owner no_owner = {};
	struct sums *s = sums_of(walk->is_kernel ? no_owner : walk->me, no_file, walk->left);

	if (!s)
		return;
	add(walk->is_kernel ? &s->metadata : &s->direct, walk->left);
	count_burst(&s->bursts, &s->sent, walk);
	s->last = walk->now;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(on_request, struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 op = bio->bi_opf & 0xff;
	struct walk walk = {
		.vectors = bio->bi_io_vec,
		.left = bio->bi_iter.bi_size,
		.vector = bio->bi_iter.bi_idx,
		.done = done_of(bio),
		.device = BPF_CORE_READ(bio, bi_bdev, bd_dev),
		.now = bpf_ktime_get_ns(),
		.me = owner_of(task),
		.is_read = op == bpf_core_enum_value(enum req_op, REQ_OP_READ),
		.is_kernel = task->flags & PF_KTHREAD,
		.is_journal = is_journal(task),
		.is_held = BPF_CORE_READ(bio, bi_bdev, bd_holder) != NULL,
		.is_meta = bio->bi_opf & 1 << bpf_core_enum_value(enum req_flag_bits, __REQ_META),
	};

	/* Processes send clones too, with buffers that were registered before. */
	walk.is_stacked = (bio->bi_flags & 1 << BIO_CLONED && walk.is_kernel) ||
			  bpf_map_lookup_elem(&carriers, &walk.device);
	if (op == bpf_core_enum_value(enum req_op, REQ_OP_WRITE_ZEROES)) {
		wrote_zeroes(&walk);
		return 0;
	}
	if (!walk.is_read && op != bpf_core_enum_value(enum req_op, REQ_OP_WRITE) &&
	    op != bpf_core_enum_value(enum req_op, REQ_OP_ZONE_APPEND))
		return 0;
	bpf_loop(MOST_PARTS, step, &walk, 0);
	if (walk.left)
		add(&lost.sums, walk.left);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
