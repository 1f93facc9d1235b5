package expression

import "github.com/cepd/cepd/cep"

// kind is what is known of a node's values before any event is seen. Fields may be anything.
type kind uint8

const (
	anyKind kind = iota
	nullKind
	boolKind
	numberKind
	stringKind
	timeKind
	durationKind
	listKind
	objectKind
	eventKind  // the current event
	takenKind  // one taken event, or none
	takensKind // a list of taken events
	tableKind  // a named list or map: no value
)

var kindNames = [...]string{
	"anything", "nil", "true or false", "a number", "a string", "a time", "a duration", "a list", "an object",
	"an event", "an event", "a list of events", "a named list",
}

func (k kind) String() string { return kindNames[k] }

func kindOf(v cep.Value) kind {
	switch v.Kind() {
	case cep.KindMissing, cep.KindNull:
		return nullKind
	case cep.KindBool:
		return boolKind
	case cep.KindInt, cep.KindFloat:
		return numberKind
	case cep.KindString:
		return stringKind
	case cep.KindTime:
		return timeKind
	case cep.KindDuration:
		return durationKind
	case cep.KindList:
		return listKind
	default:
		return objectKind
	}
}

// op is what a node does.
type op uint8

const (
	opBad            op = iota // a mistake that has been reported
	opConst                    // value
	opField                    // slot of the current event
	opEvent                    // the current event
	opPrev                     // the event before
	opStep                     // what the single step `index` took
	opSteps                    // what the list step `index` took
	opMatch                    // all that was taken
	opTakenField               // slot of the taken event args[0]
	opTakenStep                // name of the step that took args[0]
	opTakens                   // the taken events args[0] as a list of objects
	opAt                       // element args[1] of the taken events args[0]
	opIndex                    // member or element args[1] of the value args[0]
	opSlice                    // args[0] from args[1] to args[2], each of which may be nil
	opDuration                 // last minus first taken
	opKey                      // part `index` of the key
	opAlertField               // value `index` of the alert's fields
	opTable                    // list or map
	opNot                      // not args[0]
	opNegate                   // -args[0]
	opAnd                      // all args
	opOr                       // one of args
	opCompare                  // args[0] name args[1]: == != < <= > >=
	opIn                       // args[0] in args[1]
	opText                     // args[0] name args[1]: matches contains startsWith endsWith
	opArithmetic               // args[0] name args[1]: + - * / % **
	opRange                    // args[0] .. args[1]
	opCoalesce                 // args[0] ?? args[1]
	opChoice                   // args[0] ? args[1] : args[2]
	opArray                    // [args]
	opObject                   // {names: args}
	opCall                     // function(args)
	opPredicate                // name(args[0], body args[1], extra args[2])
	opPointer                  // # of predicate `index`
	opPosition                 // #index of predicate `index`
	opAccumulator              // #acc of predicate `index`
	opLet                      // let name = args[0]; args[1]
	opVariable                 // variable `index`
	opAggregate                // aggregate `index`; args[0] is what was written
	opAggregateTaken           // event of aggregate `index`; args[0] is what was written
)

// node is a checked expression: names are resolved, macros inlined, types known as far as they can be.
type node struct {
	op    op
	kind  kind
	at    span
	args  []*node
	name  string // operator, function, variable, table, field or step, as printed
	index int    // step, key part, alert field, predicate, variable or aggregate
	slot  int
	value cep.Value
	// names are the members of an object.
	names []string
	// origin says whose events a taken event may be, so that the fields read of it are kept.
	origin   origin
	list     *List
	mapping  *Map
	function *function
	// text is the constant second operand of `matches`, `like` and `cidr`, made ready.
	text      any
	aggregate cep.AggregateKind
	// stepNames are the names by index, for .step.
	stepNames map[int]string
}

// origin is where taken events come from.
type origin struct {
	prev  bool
	all   bool
	steps []int
}

func constant(at span, v cep.Value) *node {
	return &node{op: opConst, kind: kindOf(v), at: at, value: v}
}

func (n *node) isNil() bool { return n.op == opConst && n.kind == nullKind }

// walk calls visit for n and all below it, parents first; what visit refuses is not gone into.
func (n *node) walk(visit func(*node) bool) {
	if n == nil || !visit(n) {
		return
	}
	for _, a := range n.args {
		a.walk(visit)
	}
}
