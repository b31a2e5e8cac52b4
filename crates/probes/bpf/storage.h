/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The kernel's types of files, pages and requests, as far as `disk.bpf.c` reads them; relocated like
 * those of `kernel.h`. */
#pragma once

#define S_IFMT 0170000
#define S_IFREG 0100000

#define S_IFBLK 0060000

/* Numbers that no kernel since 5.10 has changed; these have no names that the loader could look up. */
enum { BH_DIRTY = 1, BIO_CLONED = 1 };

/* The values are those of the running kernel. */
enum req_op { REQ_OP_READ = 0, REQ_OP_WRITE = 1, REQ_OP_ZONE_APPEND = 7, REQ_OP_WRITE_ZEROES = 9 };
enum req_flag_bits { __REQ_META = 12 };
enum pageflags { PG_writeback = 1, PG_head = 6 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct super_block;
struct address_space;

struct block_device {
	__u32 bd_dev;
	void *bd_holder;
};

struct inode {
	__u16 i_mode;
	struct super_block *i_sb;
	struct address_space *i_mapping;
	unsigned long i_ino;
	__u32 i_rdev;
	__u32 i_generation;
	struct hlist_head i_dentry;
};

struct super_block {
	__u32 s_dev;
	struct block_device *s_bdev;
};

struct address_space {
	struct inode *host;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	union {
		struct hlist_node d_alias;
	} d_u;
};

/* Since 7.3 the union has no name. */
struct dentry___new {
	struct hlist_node d_alias;
};

struct page {
	struct address_space *mapping;
	unsigned long compound_head;
};

/* Since 7.1: where the head is, or a mask that leads there. */
struct page___new {
	unsigned long compound_info;
};

struct folio {
	struct address_space *mapping;
	unsigned long index;
	unsigned int _nr_pages;
};

/* Until 6.14. */
struct folio___old {
	unsigned int _folio_nr_pages;
};

struct buffer_head {
	unsigned long b_state;
	struct page *b_page;
	unsigned long b_size;
	char *b_data;
};

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len;
	unsigned int bv_offset;
};

struct bvec_iter {
	unsigned int bi_size;
	unsigned int bi_idx;
	unsigned int bi_bvec_done;
};

/* Since 7.3. */
struct bvec_iter___new {
	unsigned int bi_offset;
};

struct bio {
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	unsigned short bi_flags;
	struct bvec_iter bi_iter;
	struct bio_vec *bi_io_vec;
};

#pragma clang attribute pop

/* The flags are the first word of a page, or since 6.17 a struct that holds it. */
static __always_inline bool has_flag(const void *page, int flag)
{
	unsigned long flags = 0;

	bpf_probe_read_kernel(&flags, sizeof(flags), page);
	return flags & 1UL << flag;
}

static __always_inline bool in_writeback(const void *page)
{
	return has_flag(page, bpf_core_enum_value(enum pageflags, PG_writeback));
}

static __always_inline struct page *page_behind(const void *page, __u64 number)
{
	return (void *)page + number * bpf_core_type_size(struct page);
}

static __always_inline __u64 pages_between(const void *first, const void *page)
{
	return (__u64)(page - first) / bpf_core_type_size(struct page);
}

/* Bytes of its present vector that a request has behind it. */
static __always_inline unsigned int done_of(struct bio *bio)
{
	struct bvec_iter___new *new = (void *)&bio->bi_iter;

	if (bpf_core_field_exists(new->bi_offset))
		return BPF_CORE_READ(new, bi_offset);
	return BPF_CORE_READ(bio, bi_iter.bi_bvec_done);
}

static __always_inline struct folio *folio_of(struct page *page)
{
	struct page___new *new = (void *)page;
	unsigned long head;

	if (bpf_core_field_exists(new->compound_info))
		head = BPF_CORE_READ(new, compound_info);
	else
		head = BPF_CORE_READ(page, compound_head);
	if (!(head & 1))
		return (struct folio *)page;
	/* No page is that high: all ones above are a mask's. */
	if (head >> 32 == 0xffffffff)
		return (struct folio *)((unsigned long)page & head);
	return (struct folio *)(head - 1);
}

/* Bytes of a folio. */
static __always_inline __u64 folio_size(struct folio *folio, __u32 page_shift)
{
	__u32 pages = 1;

	if (has_flag(folio, bpf_core_enum_value(enum pageflags, PG_head))) {
		struct folio___old *old = (void *)folio;

		if (bpf_core_field_exists(folio->_nr_pages))
			pages = BPF_CORE_READ(folio, _nr_pages);
		else if (bpf_core_field_exists(old->_folio_nr_pages))
			pages = BPF_CORE_READ(old, _folio_nr_pages);
	}
	return (__u64)(pages ? pages : 1) << page_shift;
}
