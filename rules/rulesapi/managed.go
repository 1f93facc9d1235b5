package rulesapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// silencesFile is the file of the silences that the API makes.
	silencesFile = "silences.yaml"
	// undoFile keeps what files held while several of them are written. It begins with a dot, so that it is no rule file.
	undoFile = ".undo"
	// undoVersion is that of the undo file.
	undoVersion = 1
	undoMagic   = "cepd managed undo"
)

// idMax is the length of the longest id.
const idMax = 128

// validID reports whether a rule or silence may have the id, so that it can be the name of a file: [a-z0-9][a-z0-9._-]{0,127},
// no two dots in a row.
func validID(id string) bool {
	if id == "" || len(id) > idMax || strings.Contains(id, "..") {
		return false
	}
	for i := range len(id) {
		c := id[i]
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// managedFiles are the files that the API writes, in one directory. The reloader's lock is held around what changes them.
type managedFiles struct {
	// dir is the directory as sources are named; "": there is none.
	dir string
}

// name is what the file of a rule is called as a source.
func (m managedFiles) name(id string) string { return path.Join(m.dir, id+".yaml") }

// read returns what a file holds; nil where it is not there. What is larger than a rule file may be was not written here.
func (m managedFiles) read(name string) ([]byte, error) {
	info, err := os.Lstat(filepath.FromSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a managed file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, m.ofPeople(name)
	}
	b, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		return nil, fmt.Errorf("read a managed file: %w", err)
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

// ofPeople is the answer to who would change a file that people write.
func (m managedFiles) ofPeople(name string) error {
	p := kindNotManaged.problem("%s is not written by the API: change it there", name)
	p.File = name
	return p
}

// write gives files other contents, nil removes one: all of them or, whatever happens, none. undo brings back what they held.
func (m managedFiles) write(files map[string][]byte) (undo func() error, err error) {
	dir := filepath.FromSlash(m.dir)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make the directory of managed rules: %w", err)
	}
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	before := make(map[string][]byte, len(files))
	for name := range files {
		if before[name], err = m.read(name); err != nil {
			return nil, err
		}
	}
	if err := m.exchange(before, files); err != nil {
		return nil, err
	}
	return func() error { return m.exchange(files, before) }, nil
}

// exchange writes files that hold what before says. A single one is there or not; of several a note tells what they held until
// all are written, so that a crash in between is undone by the next start.
func (m managedFiles) exchange(before, files map[string][]byte) error {
	if len(files) > 1 {
		if err := m.noteUndo(before); err != nil {
			return err
		}
	}
	err := m.putAll(files)
	if err == nil && len(files) > 1 {
		err = m.forgetUndo()
	}
	if err == nil {
		return nil
	}
	if back := m.putAll(before); back != nil {
		return errors.Join(err, fmt.Errorf("put the files back: %w", back))
	}
	if len(files) > 1 {
		err = errors.Join(err, m.forgetUndo())
	}
	return err
}

// putAll writes or removes files, and makes that durable.
func (m managedFiles) putAll(files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := put(filepath.FromSlash(name), files[name]); err != nil {
			return err
		}
	}
	return syncDir(filepath.FromSlash(m.dir))
}

// noteUndo keeps what files hold.
func (m managedFiles) noteUndo(before map[string][]byte) error {
	named := make(map[string]*string, len(before))
	for name, data := range before {
		named[path.Base(name)] = nil
		if data != nil {
			text := string(data)
			named[path.Base(name)] = &text
		}
	}
	b, err := encodeUndo(named)
	if err != nil {
		return err
	}
	if err := put(filepath.Join(filepath.FromSlash(m.dir), undoFile), b); err != nil {
		return err
	}
	return syncDir(filepath.FromSlash(m.dir))
}

// forgetUndo says that all files are as they should be.
func (m managedFiles) forgetUndo() error {
	dir := filepath.FromSlash(m.dir)
	if err := put(filepath.Join(dir, undoFile), nil); err != nil {
		return err
	}
	return syncDir(dir)
}

// Recover brings the managed files of a directory back to what they were where a process ended while it was writing several of
// them. It is called before rules are read, and says how many files it has put back. A directory that is not there is fine.
func Recover(managedDir string) (int, error) {
	m := managedFiles{dir: managedDir}
	note := filepath.Join(filepath.FromSlash(managedDir), undoFile)
	b, err := os.ReadFile(note)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("recover managed rules: %w", err)
	}
	before, err := decodeUndo(b)
	if err != nil {
		return 0, fmt.Errorf("recover managed rules: %s: %w", note, err)
	}
	files := make(map[string][]byte, len(before))
	for base, text := range before {
		name := path.Join(managedDir, base)
		files[name] = nil
		if text != nil {
			files[name] = []byte(*text)
		}
	}
	if err := m.putAll(files); err != nil {
		return 0, fmt.Errorf("recover managed rules: %w", err)
	}
	return len(files), m.forgetUndo()
}

// undoNote is the content of the undo file.
type undoNote struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Files are texts by the names of files, null for one that was not there.
	Files map[string]*string `json:"files"`
}

// errUndo says that an undo file is not what it should be.
var errUndo = errors.New("the note of what was being written is damaged: look whether the files beside it are as they should be, and remove it")

// checksums are CRC-32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeUndo makes an undo file: 8 hex digits of checksum, a blank, JSON, a line end.
func encodeUndo(files map[string]*string) ([]byte, error) {
	return sealed(undoNote{undoMagic, undoVersion, files})
}

// decodeUndo reads one.
func decodeUndo(b []byte) (map[string]*string, error) {
	body, ok := unseal(b)
	var n undoNote
	if !ok || json.Unmarshal(body, &n) != nil || n.Format != undoMagic {
		return nil, errUndo
	}
	if n.Version != undoVersion {
		return nil, fmt.Errorf("written by a newer version (%d, and %d is known): start the newer program", n.Version, undoVersion)
	}
	for name := range n.Files {
		id, isRule := strings.CutSuffix(name, ".yaml")
		if !isRule || !validID(id) {
			return nil, errUndo
		}
	}
	return n.Files, nil
}

// sealed returns a line of JSON behind its checksum.
func sealed(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write a note: %w", err)
	}
	return fmt.Appendf(make([]byte, 0, len(b)+10), "%08x %s\n", crc32.Checksum(b, castagnoli), b), nil
}

// unseal returns the JSON of a line with a sound checksum.
func unseal(line []byte) ([]byte, bool) {
	const head = 9
	if len(line) < head+1 || line[head-1] != ' ' || line[len(line)-1] != '\n' {
		return nil, false
	}
	body := line[head : len(line)-1]
	return body, fmt.Sprintf("%08x", crc32.Checksum(body, castagnoli)) == string(line[:head-1])
}

// put writes a file so that it holds either what it held or the new content, and nothing else, whatever happens; nil removes it.
// The directory has to be synced behind it.
func put(file string, data []byte) error {
	if data == nil {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a managed file: %w", err)
		}
		return nil
	}
	// The name begins with a dot and does not end as those of rules do: half a file is never read.
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return fmt.Errorf("write a managed file: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Chmod(0o640)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error is told; what is left begins with a dot
		return fmt.Errorf("write %s: %w", filepath.Base(file), err)
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
