// What the tests of Go programs watch. `goroutines WHAT N`; each prints what it knows of itself.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

type worker struct{ rounds int }

// What the thread has run, by its own clock.
func ran() int64 {
	var now syscall.Timespec
	const threadCPUTime = 3
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPUTime, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}

// Runs for this time and returns how long it ran. No other goroutine has the thread meanwhile.
func run(ns int64) int64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := ran()
	for ran()-begin < ns {
	}
	return ran() - begin
}

var inHeavy, inLight int64

// Each lets others run in the middle, and goes on with whatever thread there is then.

//go:noinline
func heavy() {
	for i := 0; i < 3; i++ {
		atomic.AddInt64(&inHeavy, run(2e6))
		runtime.Gosched()
	}
}

//go:noinline
func light() {
	runtime.Gosched()
	atomic.AddInt64(&inLight, run(2e6))
}

//go:noinline
func (w *worker) Work(n int) int { return w.rounds + n }

// As deep as that, with frames that make the stack grow.
//
//go:noinline
func descend(n int) byte {
	var frame [512]byte
	frame[n%512] = byte(n)
	if n == 0 {
		return frame[0]
	}
	return descend(n-1) + frame[n%512]
}

//go:noinline
func grows(n int) byte { return descend(n) }

//go:noinline
func waits(from chan int) int { return <-from }

//go:noinline
func throws(n int) {
	if n > 0 {
		throws(n - 1)
	}
	panic(n)
}

//go:noinline
func catches(n int) (caught bool) {
	defer func() { caught = recover() != nil }()
	throws(n)
	return false
}

//go:noinline
func exits() { runtime.Goexit() }

var kept []byte

// Its memory comes from the heap of the whole program, which is looked after on the thread's own stack.
//
//go:noinline
func allocates() {
	atomic.AddInt64(&inHeavy, run(1e6))
	kept = make([]byte, 1<<20)
	atomic.AddInt64(&inHeavy, run(1e6))
}

func each(n int, what func(int)) {
	var all sync.WaitGroup
	for i := 0; i < n; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			what(i)
		}(i)
	}
	all.Wait()
}

func main() {
	what := os.Args[1]
	n, _ := strconv.Atoi(os.Args[2])
	switch what {
	case "count":
		w := &worker{}
		each(n, func(int) {
			for i := 0; i < 20; i++ {
				w.Work(i)
				if i%5 == 0 {
					runtime.Gosched()
				}
			}
		})
	case "shares":
		each(8, func(int) {
			for i := 0; i < n; i++ {
				heavy()
				light()
			}
		})
		fmt.Println(inHeavy, inLight)
	case "grow":
		each(n, func(i int) { grows(i % 200) })
	case "wait":
		from := make(chan int)
		go func() {
			time.Sleep(50 * time.Millisecond)
			for i := 0; i < n; i++ {
				from <- i
			}
		}()
		each(n, func(int) { waits(from) })
	case "panic":
		for i := 0; i < n; i++ {
			if !catches(2) {
				os.Exit(1)
			}
			run(1e5)
		}
	case "allocate":
		each(8, func(int) {
			for i := 0; i < n; i++ {
				allocates()
			}
		})
		fmt.Println(inHeavy)
	case "exit":
		each(n, func(int) { exits() })
		(&worker{}).Work(1)
	case "leave":
		// Over, while goroutines wait in it.
		never := make(chan int)
		for i := 0; i < n; i++ {
			go waits(never)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
