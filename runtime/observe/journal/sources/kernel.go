package sources

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
)

// Bounds of what is read.
const (
	maxRecords = 50_000
	maxAudit   = 8 << 20
	maxRecord  = 8 << 10
)

// auditLog is auditd's (auditd.conf(5)).
const auditLog = "/var/log/audit/audit.log"

// kernelLog reads what AppArmor, SELinux, Landlock and seccomp write to the kernel's log, or to
// auditd's where that receives it: records of audit(7) since the jail was made, of processes with
// the jail's own ids on the host.
func (r *Reader) kernelLog(_ state.Store, j *journal.Jail) ([]journal.Event, error) {
	ids, ok := idsOf(j)
	if !ok {
		return nil, nil
	}
	p := newParser(j, ids)
	lines, err := r.log()
	for _, l := range lines {
		p.line(l.text, l.at)
	}
	// Of another jail's domain, or one that is not known.
	p.out = slices.DeleteFunc(p.out, func(e journal.Event) bool { return e.Kind == journal.LandlockDenied && e.Pid == 0 })
	return p.out, err
}

// logLine is a line of a log, with the time beside it, if there is one.
type logLine struct {
	text string
	at   time.Time
}

// readLogs reads the kernel's log and auditd's. The lines that were read are returned beside an
// error.
func readLogs() (out []logLine, err error) {
	err = kmsg(func(text string, at time.Time) { out = append(out, logLine{text, at}) })
	text, aerr := journal.ReadLast(auditLog, maxAudit)
	for line := range strings.Lines(string(text)) {
		out = append(out, logLine{text: strings.TrimSuffix(line, "\n")})
	}
	if !errors.Is(aerr, os.ErrNotExist) {
		err = errors.Join(err, aerr)
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		err = nil // another user's jails: they have no such log
	}
	return out, err
}

// idRange are host ids of one jail alone.
type idRange struct{ first, count uint64 }

func (r idRange) has(uid uint64) bool { return uid >= r.first && uid-r.first < r.count }

// idsOf are the ids that a jail has for itself: of its record, or of its journal's first event.
func idsOf(j *journal.Jail) (idRange, bool) {
	if j.Brief != nil {
		return parseIDs(journal.OwnIDs(j.Brief))
	}
	events, err := journal.Read(j.Path)
	if err != nil || len(events) == 0 {
		return idRange{}, false
	}
	return parseIDs(events[0].Value)
}

func parseIDs(text string) (r idRange, ok bool) {
	a, b, _ := strings.Cut(text, ":")
	first, err := strconv.ParseUint(a, 10, 32)
	count, err2 := strconv.ParseUint(b, 10, 32)
	return idRange{first, count}, err == nil && err2 == nil
}

// kmsg reads the kernel's log (Documentation/ABI/testing/dev-kmsg).
func kmsg(each func(string, time.Time)) error {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the kernel's log: %w", err)
	}
	defer unix.Close(fd)
	return readKmsg(fd, each)
}

// readKmsg reads the records that follow in the open kernel's log.
func readKmsg(fd int, each func(string, time.Time)) error {
	buf := make([]byte, maxRecord)
	for range maxRecords {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EPIPE || err == unix.EINTR: // overwritten meanwhile: the next one is there
			continue
		case err == unix.EAGAIN, err == nil && n == 0:
			return nil
		case err != nil:
			return fmt.Errorf("the kernel's log: %w", err)
		}
		each(kmsgRecord(string(buf[:n])))
	}
	return nil
}

// kmsgRecord is a record's text and time: "PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT", on which lines
// of KEY=VALUE may follow.
func kmsgRecord(record string) (string, time.Time) {
	head, text, _ := strings.Cut(record, ";")
	text, _, _ = strings.Cut(text, "\n")
	var now unix.Timespec
	parts := strings.Split(head, ",")
	if len(parts) < 3 || unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return text, time.Time{}
	}
	us, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return text, time.Time{}
	}
	return text, time.Now().Add(time.Duration(us)*time.Microsecond - time.Duration(now.Nano()))
}

// auditRecord is a record of audit, taken apart.
type auditRecord struct {
	kind   string // its number
	time   time.Time
	text   string
	fields map[string]string
}

// auditTypes are auditd's names of the kinds that count.
var auditTypes = map[string]string{"SECCOMP": "1326", "AVC": "1400", "LANDLOCK_ACCESS": "1423", "LANDLOCK_DOMAIN": "1424"}

// parseAudit takes a record apart: of the kernel's log ("audit: type=1400 audit(1.2:3): a=b") or
// auditd's ("type=AVC msg=audit(1.2:3): a=b").
func parseAudit(line string) (r auditRecord, ok bool) {
	line = strings.TrimPrefix(line, "audit: ")
	rest, ok := strings.CutPrefix(line, "type=")
	if !ok {
		return r, false
	}
	r.kind, rest, _ = strings.Cut(rest, " ")
	if n, named := auditTypes[r.kind]; named {
		r.kind = n
	}
	rest, ok = strings.CutPrefix(strings.TrimPrefix(rest, "msg="), "audit(")
	if !ok {
		return r, false
	}
	stamp, text, ok := strings.Cut(rest, "):")
	if !ok {
		return r, false
	}
	stamp, _, _ = strings.Cut(stamp, ":")
	sec, milli, _ := strings.Cut(stamp, ".")
	s, err := strconv.ParseInt(sec, 10, 64)
	ms, err2 := strconv.ParseInt(milli, 10, 64)
	if err != nil || err2 != nil {
		return r, false
	}
	r.time, r.text, r.fields = time.UnixMilli(s*1000+ms).UTC(), text, fieldsOf(text)
	return r, true
}

// fieldsOf are the words KEY=VALUE of a record. A value in quotes is the process's to choose; the
// kernel writes it in hexadecimal if it holds a quote, a blank or a control character. The first
// one of a name counts.
func fieldsOf(text string) map[string]string {
	out := map[string]string{}
	for len(text) > 0 && len(out) < 64 {
		text = strings.TrimLeft(text, " \x1d")
		end := strings.IndexAny(text, " =\x1d")
		if end < 0 {
			return out
		}
		key := text[:end]
		if text[end] != '=' {
			text = text[end:]
			continue
		}
		text = text[end+1:]
		var value string
		if strings.HasPrefix(text, `"`) {
			value, text, _ = strings.Cut(text[1:], `"`)
		} else if end := strings.IndexAny(text, " \x1d"); end < 0 {
			value, text = text, ""
		} else {
			value, text = text[:end], text[end:]
		}
		if _, twice := out[key]; !twice {
			out[key] = value
		}
	}
	return out
}

// An auditParser makes events of the records of one jail.
type auditParser struct {
	id      string
	ids     idRange
	from    time.Time
	domains map[string]auditRecord // Landlock's, whose maker is reported once
	out     []journal.Event
}

// maxDomains bounds what is remembered.
const maxDomains = 10_000

func newParser(j *journal.Jail, ids idRange) *auditParser {
	return &auditParser{id: j.ID, ids: ids, from: j.Born, domains: map[string]auditRecord{}}
}

// line looks at a line of a log; at is when it was written, where the log reports it beside the
// text.
func (p *auditParser) line(text string, at time.Time) {
	switch {
	case len(text) > maxRecord || len(p.out) >= maxRecords:
		return
	case !strings.Contains(text, "audit("):
		if !at.Before(p.from) {
			p.cgroup(text, at)
		}
		return
	}
	r, ok := parseAudit(text)
	if !ok || r.time.Before(p.from) {
		return
	}
	switch {
	case r.kind == "1424":
		// It comes behind the first refusal of its domain.
		if domain := r.fields["domain"]; p.mine(r) && len(p.domains) < maxDomains {
			p.domains[domain] = r
			for i := range p.out {
				if e := &p.out[i]; e.Kind == journal.LandlockDenied && e.Rule == domain {
					r.whose(e)
				}
			}
		}
	case r.kind == "1423":
		p.landlock(r)
	case !p.mine(r):
	case r.kind == "1326":
		p.out = append(p.out, seccomp(r))
	case r.kind == "1400" && r.fields["apparmor"] == "DENIED":
		p.out = append(p.out, apparmor(r))
	case r.kind == "1400" && strings.Contains(r.text, "avc:") && strings.Contains(r.text, "denied"):
		p.out = append(p.out, selinux(r))
	}
}

// cgroup is for what the kernel reports of limits: of the first fork that a group refused, and of
// each process that it killed.
func (p *auditParser) cgroup(text string, at time.Time) {
	if path, ok := strings.CutPrefix(text, "cgroup: fork rejected by pids controller in "); ok && groupOf(path, p.id) {
		p.out = append(p.out, journal.Event{
			Kind: journal.LimitPids, Source: journal.SourceKernel, Time: journal.At(at),
			Reason: "the kernel reports only the first time",
		})
		return
	}
	rest, ok := strings.CutPrefix(text, "oom-kill:")
	if !ok {
		return
	}
	if r := killed(rest); p.mine(r) {
		r.time = at
		p.out = append(p.out, r.event(journal.LimitOOM))
	}
}

// killed is the process of an OOM record, which ends in ",task=NAME,pid=NUMBER,uid=NUMBER"
// (dump_oom_victim in mm/oom_kill.c). The name is the jail's to choose, commas and all, and 15
// characters are enough for ",uid=" and another jail's id: the last of each counts.
func killed(text string) auditRecord {
	fields := map[string]string{}
	text, fields["uid"] = cutLast(text, ",uid=")
	text, fields["pid"] = cutLast(text, ",pid=")
	_, fields["comm"], _ = strings.Cut(text, ",task=")
	return auditRecord{fields: fields}
}

func cutLast(text, sep string) (before, after string) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, ""
	}
	return text[:i], text[i+len(sep):]
}

// groupOf reports whether a control group is a container's of that id: one of its directories is
// called so, by systemd PREFIX-ID.scope.
func groupOf(path, id string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if scope, ok := strings.CutSuffix(name, ".scope"); name == id || ok && (scope == id || strings.HasSuffix(scope, "-"+id)) {
			return id != ""
		}
	}
	return false
}

// uid is the user that a record is of.
func (r auditRecord) uid() (uid uint64, known bool) {
	for _, key := range []string{"fsuid", "uid"} {
		if uid, err := strconv.ParseUint(r.fields[key], 10, 32); err == nil {
			return uid, true
		}
	}
	return 0, false
}

// mine reports whether a record is of the jail's ids.
func (p *auditParser) mine(r auditRecord) bool {
	uid, known := r.uid()
	return known && p.ids.has(uid)
}

// landlock is a refusal, which names a domain only. It is the jail's when the domain is, which may
// be reported later.
func (p *auditParser) landlock(r auditRecord) {
	domain := r.fields["domain"]
	e := journal.Event{
		Kind: journal.LandlockDenied, Source: journal.SourceKernel, Time: journal.At(r.time), Rule: domain,
		Path: unhex(r.fields["path"]), Target: r.fields["blockers"],
	}
	if d, known := p.domains[domain]; known {
		d.whose(&e)
	}
	p.out = append(p.out, e)
}

// event returns an event of a record's time and process.
func (r auditRecord) event(kind journal.Kind) journal.Event {
	e := journal.Event{Kind: kind, Source: journal.SourceKernel, Time: journal.At(r.time)}
	r.whose(&e)
	return e
}

// whose adds to an event the process that a record is of.
func (r auditRecord) whose(e *journal.Event) {
	e.Pid, _ = strconv.Atoi(r.fields["pid"])
	e.Program = unhex(r.fields["exe"])
	if e.Program == "" || e.Program == "(null)" {
		e.Program = unhex(r.fields["comm"])
	}
	if uid, known := r.uid(); known {
		e.UID = new(uint32(uid))
	}
}

func seccomp(r auditRecord) journal.Event {
	e := r.event(journal.SyscallRefused)
	e.Arch = r.fields["arch"]
	if n, err := strconv.Atoi(r.fields["syscall"]); err == nil {
		e.Number = &n
	}
	if r.fields["sig"] != "" && r.fields["sig"] != "0" {
		e.Kind, e.Status = journal.SyscallKilled, "signal "+r.fields["sig"]
	}
	return e
}

func apparmor(r auditRecord) journal.Event {
	e := r.event(journal.ApparmorDenied)
	e.Rule, e.Path = r.fields["profile"], unhex(r.fields["name"])
	e.Target = strings.TrimSpace(r.fields["operation"] + " " + r.fields["denied_mask"])
	if c := r.fields["capname"]; c != "" {
		e.Target = "capability " + c
	}
	return e
}

func selinux(r auditRecord) journal.Event {
	_, wanted, _ := strings.Cut(r.text, "{")
	wanted, _, _ = strings.Cut(wanted, "}")
	e := r.event(journal.SelinuxDenied)
	e.Rule, e.Path = r.fields["scontext"], unhex(r.fields["name"])
	e.Target = strings.TrimSpace(strings.TrimSpace(wanted)+" "+r.fields["tclass"]) + " of " + r.fields["tcontext"]
	return e
}

// unhex undoes the kernel's hexadecimal form of text that is not plain.
func unhex(s string) string {
	text, err := hex.DecodeString(s)
	if err != nil || len(s) < 4 || s != strings.ToUpper(s) {
		return s
	}
	return string(text)
}
