package inside
import "testing"
func TestX(t *testing.T) {}
