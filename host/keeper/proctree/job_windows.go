package proctree

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Job is one job object made for one run. Its processes end when it is closed,
// which also happens when the process that holds it dies.
type Job struct {
	handle windows.Handle
}

// NewJob makes an empty job.
func NewJob() (*Job, error) {
	h, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make job object: %w", err)
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(h, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info))); err != nil {
		windows.CloseHandle(h)
		return nil, fmt.Errorf("make job object: %w", err)
	}
	return &Job{handle: h}, nil
}

// Assign puts a process into the job, and with it all that it starts from now
// on. Start it suspended, or what it starts before that is outside.
func (j *Job) Assign(pid int) error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid))
	if err != nil {
		return fmt.Errorf("put process %d into the job: %w", pid, err)
	}
	defer windows.CloseHandle(h)
	if err := windows.AssignProcessToJobObject(j.handle, h); err != nil {
		return fmt.Errorf("put process %d into the job: %w", pid, err)
	}
	return nil
}

// Procs returns the pids of the processes in the job.
func (j *Job) Procs() ([]int, error) {
	// JOBOBJECT_BASIC_PROCESS_ID_LIST: two 32-bit counts, then the pids, each
	// as wide as a pointer. It starts on a word for the alignment.
	const head = 8 / unsafe.Sizeof(uintptr(0))
	for n := 256; ; n *= 2 {
		list := make([]uintptr, int(head)+n)
		size := uint32(uintptr(len(list)) * unsafe.Sizeof(list[0]))
		err := windows.QueryInformationJobObject(j.handle, windows.JobObjectBasicProcessIdList,
			uintptr(unsafe.Pointer(&list[0])), size, nil)
		if err == windows.ERROR_MORE_DATA && n < 1<<20 {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list job object: %w", err)
		}
		counts := (*[2]uint32)(unsafe.Pointer(&list[0]))
		pids := make([]int, 0, counts[1])
		for _, pid := range list[head:][:min(int(counts[1]), n)] {
			pids = append(pids, int(pid))
		}
		return pids, nil
	}
}

// Kill ends all processes in the job.
func (j *Job) Kill() error {
	if err := windows.TerminateJobObject(j.handle, 1); err != nil {
		return fmt.Errorf("end job object: %w", err)
	}
	return nil
}

// Close releases the job, which ends the processes that are left in it.
func (j *Job) Close() error { return windows.CloseHandle(j.handle) }
