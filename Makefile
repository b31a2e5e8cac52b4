# Two commands suffice on a fresh Debian machine with Rust (https://rustup.rs): `make demo` and
# `make test`. Build products go to $CARGO_TARGET_DIR if that is set, else to target/.

# More arguments for the command behind a target: make demo ARGS="--days 7 --json"
ARGS ?=
# How long each fuzz target runs.
FUZZ_SECONDS ?= 300
# 1: a machine that cannot start the guest fails the test; empty: it skips it.
VM_REQUIRED ?= 1
# Parts of names of the tests of probes that guests run; empty: all.
PROBE_TESTS ?=
# What a static binary is built for: arm64 or amd64.
ARCH ?= arm64
# Cargo's profile of what `demo`, `cache-tests` and `soak` run. With `dev` it is what the tests have built.
PROFILE ?= release
export NIGHTWATT_PROFILE := $(PROFILE)
TESTED = $(if $(filter dev,$(PROFILE)),--workspace,--release -p nightwatt-cli)
# How long the soak takes.
MINUTES ?= 10
# How many guests are cut off while they write the disk cache.
GUESTS ?= 100
# How long the plan of the live pool takes.
POOL_MINUTES ?= 20

# The seed of random tests, property tests among them; without one they draw a new one in every run. `make
# test` has a fixed one, so that a commit always runs the same cases: `make test SEED=` draws one.
test: SEED ?= 1
seeded = $(if $(SEED),PROPTEST_RNG_SEED=$(SEED))

# A shell that has not been restarted since rustup was installed does not find it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

# Real logs for the tests that read some; without them those tests say `skipped: ...`.
ifneq ($(wildcard ../shared/data),)
export NIGHTWATT_DATA ?= $(abspath ../shared/data)
endif

.PHONY: help demo install test cache-tests bench book bench-analyze bench-analyze-memory bench-caliper bench-caliper-loads bench-disk bench-fleet bench-front-door bench-instructions bench-load bench-markers bench-meters bench-nasa bench-python bench-schedule bench-tcp bench-tcp-where bench-transfer policies fuzz fuzz-smoke lint lint-without-bpf doc fresh licences nightly garbage soak soak-cache soak-disk soak-guests soak-mirror soak-pool soak-schedule soak-transfer mirror notebooks python test-arm64 test-browser test-guide test-mirror test-recipes test-vm test-static wheel ci

help:
	@echo 'make demo        build, then a day of traffic meets a server that sleeps (ARGS=--open: in a browser; ARGS="--help")'
	@echo 'make install     builds nightwatt and puts it into ~/.cargo/bin (75 MB; ARGS="--root DIR": elsewhere)'
	@echo 'make test        the tests that are not nightly (SEED=1: of random ones; SEED= draws another one)'
	@echo 'make cache-tests the public HTTP cache test suite (ARGS="--suite DIR" for a checkout of it)'
	@echo 'make bench       benchmarks'
	@echo 'make bench-analyze'
	@echo '                 analyze beside GoAccess on a log of 1 GB (ARGS="--megabytes 200")'
	@echo 'make bench-analyze-memory'
	@echo '                 memory of analyze on ten million different URLs (ARGS="--requests 1000000")'
	@echo 'make bench-front-door'
	@echo '                 the proxy beside nginx, Varnish and a bare loop (ARGS="--quick")'
	@echo 'make bench-instructions'
	@echo '                 instructions of a hit, a miss, analyze, fleet and the sampler, by callgrind (ARGS="--against BINARY", ARGS=--check)'
	@echo 'make bench-python'
	@echo '                 the Python package beside the command line, Polars and GoAccess on one log (ARGS="--megabytes 100")'
	@echo 'make bench-load  nightwatt load beside oha against nginx (ARGS="--seconds 5 --rates 200 2000")'
	@echo 'make bench-markers what a marker costs without and with a reader (needs root)'
	@echo 'make bench-meters'
	@echo '                 reading five energy counters beside a bare loop (ARGS=30: seconds of each run)'
	@echo 'make bench-caliper what a watched call costs, beside a pair of probes that does nothing (needs root)'
	@echo 'make bench-caliper-loads'
	@echo '                 what a handful of watched functions costs gcc, bzip2, nginx and PostgreSQL (needs root)'
	@echo 'make bench-disk  what watching disks costs gcc, grep, bzip2 and cp (needs root)'
	@echo 'make bench-transfer'
	@echo '                 send beside fixed codecs, zstd --adapt, scp, rsync and tar over slow and fast links (ARGS=--quick; needs root)'
	@echo 'make bench-tcp-where'
	@echo '                 share of scheduler, idle and interrupt functions over links a, d, f, g (ARGS="--most 5"; needs root)'
	@echo 'make bench-schedule six jobs by nightwatt schedule, all at once, and in turn; a lone job; ARGS="--runs 8"'
	@echo 'make bench-fleet the fleet simulator beside SimPy and Ciw on one queue (ARGS=50000: arrivals for them)'
	@echo 'make bench-nasa  the default policy of pools over two months of NASA'"'"'s requests (ARGS=5: servers; up to an hour of CPU time for all)'
	@echo 'make bench-tcp   nightwatt tcp beside iperf3 on loopback (ARGS="--seconds 10 --send")'
	@echo 'make policies    every policy figure over the real logs, beside the best fixed time-out'
	@echo 'make mirror      what a mirror of the site would save on each real log, and the medians (ARGS="a.log b.log")'
	@echo 'make python      the Python package: its wheel in fresh venvs, and its tests (ARGS="-k polars")'
	@echo 'make notebooks'
	@echo '                 runs the notebooks of the Python package and writes their pages (ARGS=--check: compares)'
	@echo 'make wheel       its wheel, with the program in it (ARGS=amd64, ARGS=arm64: as released, for any Linux)'
	@echo 'make lint        format, clippy, house rules'
	@echo 'make lint-without-bpf'
	@echo '                 clippy for what make demo builds'
	@echo 'make doc         the API documentation'
	@echo 'make book        the pages under docs/ as a book, with all commands (builds mdBook the first time)'
	@echo 'make fresh       make demo and make test on a fresh Debian, as root and as an ordinary user (ARGS=--short: build only libraries in C; needs root)'
	@echo 'make licences    licences of all dependencies'
	@echo 'make nightly     what is too slow for make ci, in lanes (LANE=browser: one of them; tools/nightly lanes lists them)'
	@echo '                 each lane that passes is recorded in .ci/nightly; about three hours for all'
	@echo 'make fuzz        each fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS), with the address sanitizer'
	@echo 'make fuzz-smoke  each fuzz target for 10 s'
	@echo 'make garbage     a million generated requests against the gateway (GARBAGE_REQUESTS, SEED)'
	@echo 'make soak        MINUTES=$(MINUTES) of mixed load while the server is killed, frozen, asleep (SEED)'
	@echo 'make soak-cache  a process that writes the disk cache is killed at 1,000 moments'
	@echo 'make soak-mirror a proxy is killed in 1,000 passes over a manual behind nginx (KILLS=100); its store killed as it writes;'
	@echo '                 100 random walks in which a site changes while its server sleeps, wakes and dies'
	@echo 'make soak-disk   eleven processes that write 3.3 GB in every way, beside the kernel'"'"'s own counters (needs root)'
	@echo 'make soak-guests GUESTS=$(GUESTS) QEMU guests are cut off while they write the disk cache (ARGS="--seed 2")'
	@echo 'make soak-pool   four real servers for POOL_MINUTES=$(POOL_MINUTES) beside their simulation; then drained and killed (POOL_POLICY)'
	@echo 'make soak-schedule'
	@echo '                 100 million quanta of the scheduling policy: no task waits longer than its bound'
	@echo 'make soak-transfer'
	@echo '                 send and receive killed 1,000 times each (KILLS=100); 100 GB resumed; a million damaged frames'
	@echo 'make test-vm     the proxy before machines that truly suspend (QEMU guests; needs root; MACHINE_CYCLES);'
	@echo '                 eBPF probes on other kernels, an old one and the newest (tools/vm/probes);'
	@echo '                 the table of kernel functions of tcp where against three kernels (tools/vm/symbols);'
	@echo '                 the sched_ext scheduler on two kernels (tools/vm/sched);'
	@echo '                 three guests cut off while they write the disk cache (tools/vm/cut-off);'
	@echo '                 PostgreSQL compared in a guest and in a container in a guest (tools/vm/compare);'
	@echo '                 with TCP_LAB=--short, or TCP_LAB=long: TCP connections between two guests (tools/vm/tcp)'
	@echo 'make test-guide  the commands of docs/guide.md in a clean Debian guest with nginx (4 to 6 minutes; needs Debian'"'"'s mirror)'
	@echo 'make test-mirror WordPress with MariaDB, and MediaWiki, read while they are off (installs them; as root)'
	@echo 'make test-recipes'
	@echo '                 Home Assistant, Gitea and Minetest behind the proxy, as docs/recipes.md has them (installs them; as root)'
	@echo 'make test-browser'
	@echo '                 dashboard and waiting page in Chromium, by Playwright and axe-core (ARGS=--pictures takes those of the docs); compressed pages in Firefox'
	@echo 'make test-static'
	@echo '                 a static binary for arm64 serves a request, under QEMU (ARCH=amd64 for the other)'
	@echo 'make test-arm64  the package for arm64 in an arm64 Debian guest, the image for arm64 by qemu-user (20 to 30 minutes; needs root)'
	@echo 'make ci          all of this that must pass before a change goes in'

# Unless a profile is named, the one that is built soonest.
demo: export NIGHTWATT_PROFILE := $(if $(filter file,$(origin PROFILE)),demo,$(PROFILE))
demo:
	@tools/need rust cc $(if $(filter file,$(origin PROFILE)),,bpf)
	@nightwatt=$$(tools/program) && "$$nightwatt" demo $(ARGS)

install:
	@tools/need rust cc bpf
	@cargo install --locked --path crates/cli $(ARGS)

test:
	@tools/need --or-skip tests
	@$(seeded) tools/test $(ARGS)

cache-tests:
	@tools/cache-tests $(ARGS)

bench:
	@tools/need rust cc bpf
	@cargo bench --workspace --bench '*' --locked $(ARGS)

policies:
	@tools/need rust cc bpf
	@cargo test -p nightwatt-savings --test policies --locked -- --nocapture --test-threads 1 $(ARGS)

mirror:
	@tools/need rust cc bpf python3
	@tools/mirror $(ARGS)

bench-analyze:
	@tools/need rust cc bpf python3
	@benches/analyze/run $(ARGS)

bench-analyze-memory:
	@tools/need rust cc bpf python3
	@benches/analyze/memory $(ARGS)

bench-front-door:
	@tools/need rust cc bpf h2load nginx openssl python3 strace varnish wrk
	@benches/front-door/run $(ARGS)

bench-instructions:
	@tools/need rust cc bpf openssl python3 valgrind
	@benches/instructions/run $(ARGS)

bench-python:
	@tools/need rust cc bpf venv
	@PYTHON_PROFILE=release tools/python bench $(ARGS)

bench-load:
	@tools/need rust cc bpf nginx python3
	@benches/load/run $(ARGS)

bench-transfer:
	@tools/need rust cc bpf networks python3 send-peers sshd
	@benches/transfer/run $(ARGS)

bench-markers:
	@tools/need rust cc bpf python3
	@benches/markers/run $(ARGS)

bench-meters:
	@tools/need rust cc bpf
	@cargo run --release --locked --quiet -p nightwatt-bench-meters -- $(ARGS)

bench-tcp:
	@tools/need rust cc bpf iperf3 python3
	@benches/tcp/run $(ARGS)

bench-nasa:
	@tools/need rust cc bpf
	@cargo bench --locked --quiet -p nightwatt-sim --bench nasa -- $(ARGS)

bench-caliper:
	@tools/need rust cc bpf
	@cargo bench --locked --quiet -p nightwatt-probes --bench overhead

bench-caliper-loads:
	@tools/need rust cc bpf bzip2 nginx postgresql
	@cargo bench --locked --quiet -p nightwatt-probes --bench loads

bench-tcp-where:
	@tools/need rust cc bpf networks
	@cargo build --locked --quiet --release -p nightwatt-cli
	@nightwatt=$${CARGO_TARGET_DIR:-target}/release/nightwatt kept=$$(mktemp) && \
	  "$$nightwatt" tcp lab --scenario a,d,f,g --connections 1 --segments 1000 --most 8 --precision 0.0001 \
	    --longest 5s --accept-link --where --json $(ARGS) >"$$kept" && \
	  "$$nightwatt" reproduce B5 --results "$$kept"; rc=$$?; rm -f "$$kept"; exit $$rc

bench-disk:
	@tools/need rust cc bpf bzip2
	@cargo bench --locked --quiet -p nightwatt-probes --bench disk

bench-schedule:
	@tools/need rust cc bpf python3
	@benches/schedule/live $(ARGS) "$$(tools/program)"

bench-fleet:
	@tools/need rust cc bpf
	@benches/fleet/run $(ARGS)

lint-without-bpf:
	@tools/need rust cc
	@cargo clippy -p nightwatt-cli --no-default-features --locked -- -D warnings

lint:
	@tools/need rust cc bpf
	@cargo fmt --all --check
	@cargo fmt --manifest-path fuzz/Cargo.toml --check
	@cargo clippy --workspace --all-targets --locked -- -D warnings
	@cargo xtask tidy

python:
	@tools/need rust cc venv
	@tools/python test $(ARGS)

notebooks:
	@tools/need rust cc venv
	@tools/python notebooks $(ARGS)

wheel:
	@tools/need rust cc bpf venv
	@tools/python wheel $(ARGS)

doc:
	@tools/need rust cc bpf
	@RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --locked

# The pages under docs/ as a book, in target/book.
book:
	@tools/need rust cc bpf
	@tools/book

# Both commands of the first line of this file, on a machine that has nothing but make and rustup.
fresh:
	@tools/need python3
	@tools/fresh $(ARGS)

licences:
	@tools/need rust cc bpf python3
	@tools/licences

fuzz:
	@tools/need rust cc bpf c++
	@tools/fuzz --asan $(FUZZ_SECONDS) $(ARGS)

fuzz-smoke:
	@tools/need rust cc bpf c++
	@tools/fuzz 10 $(ARGS)

nightly:
	@tools/need python3
	@tools/nightly run $(LANE)

garbage:
	@tools/need rust cc bpf
	@$(seeded) cargo test $(TESTED) --locked --test hostile -- --ignored --exact --nocapture garbage::a_million_generated_requests_leave_no_trace

soak:
	@tools/need rust cc bpf
	@$(seeded) SOAK_MINUTES=$(MINUTES) cargo test $(TESTED) --locked --test hostile -- --ignored --exact --nocapture soak::nothing_is_lost_and_nothing_is_doubled

soak-pool:
	@tools/need rust cc
	@POOL_MINUTES=$(POOL_MINUTES) cargo test --locked --workspace --test pool_live -- --ignored --nocapture --test-threads 1 long

soak-cache:
	@tools/need rust cc
	@cargo test --locked -p nightwatt-gateway --lib -- --ignored --exact --nocapture disk_cache::tests::kill::killed_a_thousand_times_it_leaves_what_is_whole

soak-schedule:
	@tools/need rust cc
	@cargo test --locked -p nightwatt-corun --lib -- --ignored --nocapture 10_to_the_8

soak-transfer:
	@tools/need rust cc
	@NIGHTWATT_KILLS=$${KILLS:-1000} cargo test --locked -p nightwatt-transfer --test killed -- --nocapture
	@cargo test --locked -p nightwatt-transfer --lib -- --ignored --nocapture a_million_damaged_frames

soak-mirror:
	@tools/need rust cc manual
	@cargo test --locked -p nightwatt-mirror --lib -- --ignored --exact --nocapture store::tests::kill::killed_a_thousand_times_it_leaves_what_is_whole
	@cargo test --locked --workspace --test gateway -- --ignored --exact --nocapture mirror_soak::whatever_changes_no_visitor_gets_such_a_page_in_a_hundred_walks
	@cargo test --locked --workspace --test cli -- --ignored --exact --nocapture mirror_live::killed_in_a_thousand_passes_it_gives_no_torn_and_no_outdated_page

test-mirror:
	@tools/need rust cc mediawiki nginx wordpress
	@cargo test --locked --workspace --test cli -- --ignored --exact --nocapture --test-threads 1 \
	  mirror_wordpress::wordpress_is_read_while_it_is_off_and_each_user_gets_own_pages \
	  mirror_costs::a_pass_over_unchanged_pages_costs_little_and_memory_stays_flat \
	  mirror_wiki::a_wiki_is_read_while_it_is_off_and_an_edit_is_seen_at_once

test-recipes:
	@tools/need rust cc curl git go jq minetest sshd venv
	@hass=$$(tools/home-assistant) && gitea=$$(tools/gitea) && PATH="$$PATH:$$hass:$$gitea" cargo test --locked --workspace --test cli -- --ignored \
	  --nocapture --test-threads 1 recipes_live::

soak-guests:
	@tools/need rust cc python3 vm
	@NIGHTWATT_VM_REQUIRED=$(VM_REQUIRED) tools/vm/cut-off --guests $(GUESTS) $(ARGS)

soak-disk:
	@tools/need rust cc bpf disks
	@NIGHTWATT_DISK_SCALE=20 cargo test --locked --workspace --test disk

test-vm:
	@tools/need rust cc bpf containers curl disks networks postgresql python3 sdt vm wireguard
	@NIGHTWATT_VM_REQUIRED=$(VM_REQUIRED) tools/vm/compare $(COMPARE)
	@test -z "$(TCP_LAB)" || NIGHTWATT_VM_REQUIRED=$(VM_REQUIRED) tools/vm/tcp $(filter-out long,$(TCP_LAB))
	@NIGHTWATT_VM_REQUIRED=$(VM_REQUIRED) tools/vm/symbols
	@cargo test --locked -p nightwatt-profile --tests -- --nocapture
	@NIGHTWATT_VM_REQUIRED=$(VM_REQUIRED) tools/vm/probes $(PROBE_TESTS)
	@NIGHTWATT_VM_REQUIRED=$(VM_REQUIRED) tools/vm/sched
	@NIGHTWATT_VM_REQUIRED=$(VM_REQUIRED) tools/vm/cut-off --guests 3
	@NIGHTWATT_VM_REQUIRED=$(VM_REQUIRED) cargo test --locked --workspace --test machine -- --ignored --nocapture --test-threads 1 $(ARGS)

test-guide:
	@tools/need rust cc bpf deb python3 vm
	@NIGHTWATT_VM_REQUIRED=$(VM_REQUIRED) tools/vm/guide $(ARGS)

test-browser:
	@tools/need rust cc bpf chromium firefox jq node openssl venv
	@tools/dashboard-walk $(ARGS)
	@tools/waiting-walk $(ARGS)
	@tools/report-walk $(ARGS)
	@cargo test --locked --workspace --test gateway -- --ignored --exact --nocapture compression::firefox_gets_br_or_zstd_by_tls_and_gzip_in_clear_text

test-arm64:
	@tools/need rust static-arm64 deb podman python3
	@binary=$$(STATIC_PROFILE=$${STATIC_PROFILE:-dist} tools/static arm64) && \
	  packaging/deb/check-arm64 "$$(packaging/deb/build arm64 "$$binary")" && \
	  tools/with-arm64 packaging/container/check "$$(packaging/container/build arm64 "$$binary")"

test-static:
	@tools/static-check $(ARCH)

ci:
	@.ci/run
