package h2

import (
	"crypto/tls"
)

// conn is one side, which tells of what it does.
type conn struct {
	*tls.Conn
	wrote  func(int)
	failed func() // nothing more can be read; nil for nobody
}

// Write counts.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.wrote(n)
	return n, err
}

// Read tells of the end.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && c.failed != nil {
		go c.failed()
	}
	return n, err
}
