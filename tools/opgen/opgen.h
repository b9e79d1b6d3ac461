/* opgen: reads the operator files and writes everything that follows from them. See docs/operators.md.
   A build-time tool: it stops at the first error with file, line and reason. */
#ifndef FAC_OPGEN_H
#define FAC_OPGEN_H

#include "dispatch/schema.h"
#include <stdio.h>

#define LIST(type) \
    struct {       \
        type *v;   \
        size_t n;  \
    }

/* Each item of a list, which has no array while it is empty. */
#define EACH_ITEM(type, item, list) \
    for (type *item = (list).v, *item##_end = (list).n ? item + (list).n : item; item < item##_end; item++)

/* ---- the YAML entry ---- */

typedef struct pair {
    char *key, *value;
    int line; /* of the value, in the YAML file */
} pair;

typedef LIST(pair) pairs;

/* One `- op:` entry as written. Strings are NULL where the key is absent. */
typedef struct entry {
    const char *file, *family; /* "path/linalg.yaml", "linalg" */
    int line;
    char *fn,
        *object;      /* keywords of a function of the library's own, as a schema; the C type of those of type Object */
    char *number_for; /* "NAME[N]": the parameter of it, a list of integers, for which a number may stand N times */
    char *alias;      /* the operator of which this is another name */
    char *written;    /* the operator that is called with copies of what it writes (functionalised.c) */
    char *foreach;    /* the operator that is called for every entry of lists (emit_foreach.c) */
    char *op, *c, *macro, *meta, *composite, *explicit, *view, *view_copy, *view_inverse, *nondifferentiable;
    char *double_backward, *doc, *shape, *dtype, *errors, *source, *out_overload, *inplace_overload, *device_check;
    char *loop,
        *kernel; /* of a pointwise operator: the loop, or the choice of one; the C function that chooses and runs it */
    pairs kernels, raw, layouts, grad, unread, autocast;
    char **variants, **tags, **updates, **shares, **numbers, **conjugated,
        **output_differentiability; /* NULL-terminated; variants NULL means [function] */
    int positional;                 /* -1: not given */
    char *combines, *functional;    /* facts.c */
    char *forward;                  /* what the results are linear in: "self + mat1 * mat2" */
    char *batch;                    /* batch.c */
    char *random;                   /* offsets of the generator that a call takes, as C over the arguments; 1 at most */
    char *module, *new, *dims, *inputs, *outputs, *forward_all, *build, *shows, *init,
        *section; /* of a module (modules.c): its class, constructor, inputs of forward, what makes its parameters, and is printed */
    pairs choices, zero_means; /* words that a text may be; the argument that one has the value of where it is 0 */
    int version;
    bool internal, factory, data_dependent;
} entry;

/* ---- an operator: one form of an entry ---- */

typedef enum { FORM_FUNCTION, FORM_INPLACE, FORM_OUT } op_form;

typedef struct op {
    const struct model *m;
    const entry *e;
    fac_schema *s;
    op_form form;
    struct op *functional;      /* of the in-place and out forms; NULL for entries of their own */
    char *id;                   /* "add_Tensor": C identifier, unique */
    char *short_name;           /* "add.Tensor" */
    char *cname;                /* public name without fac_: "add_tensor_out" */
    char *macro;                /* macro name without fac_, or NULL */
    char *kw;                   /* keyword struct without fac_ and _kw, or NULL if there are no keywords */
    bool kw_again, macro_again; /* an earlier public operator has the same */
    size_t n_pos;               /* leading arguments that are positional in C (out arguments not counted) */
    size_t n_out_args;          /* trailing out arguments of an out form */
    int sig;                    /* index into the signatures */
    bool in_place;              /* writes its first argument and returns it */
    struct grad_plan *grad;     /* NULL if not differentiable here */
} op;

typedef LIST(op) op_list;

/* ---- a function of a hand-written header ---- */

typedef struct parameter {
    char *type, *name; /* of a pointer to a function the type is the whole declaration */
} parameter;

typedef struct function {
    const char *file;
    int line;
    char *header, *name, *result; /* "nn", without fac_, "fac_module *" */
    char *doc, *section;          /* the comment above, or above the declarations that it heads; "" */
    parameter *v;
    size_t n;
    bool must, variadic; /* the result should be used; ends with ... */
} function;

/* A member of an enumeration and its value, or of a struct and its declaration. */
typedef struct member {
    char *name, *value;
} member;

/* A type or macro of a hand-written header. */
typedef struct declaration {
    const char *kind; /* "struct", "enum", "opaque", "callback", "alias", "macro" */
    int line;
    char *header, *name; /* "nn"; whole, "" for an enumeration without */
    char *doc, *section, *text;
    member *v;
    size_t n;
} declaration;

/* A hand-written header: "nn", and its opening comment. */
typedef struct header {
    char *name, *doc;
} header;

/* A formula of src/ops/scalar/, of which back ends make loops. Its result is a "VALUE", the "SAME" that it reads, "TRUTH", the "PART"
   of a complex number, a "PAIR" of values, a "QUOTIENT", where an integer divisor may be 0, or one of two values "SELECTED" by its
   first input. */
typedef struct loop {
    char *file, *name; /* "activation", "elu" */
    const char *result;
    int n_in, n_numbers;
} loop;

/* A module that is described: the arguments of its constructor, of which those without a default are parameters in C. */
typedef struct module {
    const entry *e;
    fac_schema *s;
    char *id; /* "conv2d" */
    size_t n_required;
} module;

/* What holds for the entries of a file that do not say otherwise. */
typedef struct family {
    const char *file;
    char *combines;
} family;

typedef struct model {
    LIST(family) families;
    LIST(loop) loops;
    LIST(entry) entries;
    LIST(entry) fn_entries;
    LIST(entry) module_entries;
    LIST(module) modules;
    LIST(function) functions;
    LIST(function) inlines;
    LIST(declaration) declarations;
    LIST(header) headers;
    op_list ops; /* all forms, in file order */
    op_list fns; /* functions of the library's own, as operators that have keywords only */
    LIST(char *) signatures;
} model;

/* The next "argument.aspect" of a key of 'unread', which may hold several; false at the end. Advances *rest. */
bool next_unread(const char **rest, char **out_arg, char **out_what);

/* ---- gradient plans (expr.c) ---- */

typedef enum {
    T_TENSOR,
    T_TENSORS,
    T_INT,
    T_OPT_INT,
    T_FLOAT,
    T_BOOL,
    T_SCALAR,
    T_OPT_NUM,
    T_INTS,
    T_FLOATS,
    T_SCALARS,
    T_STRING,
    T_DTYPE,
    T_DEVICE,
    T_LAYOUT,
    T_FORMAT,
    T_GENERATOR,
    T_OBJECT,
    T_SIZES_LIST,
    T_NONE
} etype;

typedef enum {
    SAVE_VALUE,
    SAVE_SIZES,
    SAVE_STRIDES,
    SAVE_OFFSET,
    SAVE_NUMEL,
    SAVE_NDIM,
    SAVE_DTYPE,
    SAVE_DEVICE,
    SAVE_KINDS
} save_kind;

/* What the node keeps of one forward argument (or result). */
typedef struct saved_use {
    bool used[SAVE_KINDS];
    uint64_t formulas; /* bit i: formula i of the plan reads the value */
} saved_use;

typedef struct formula {
    LIST(size_t) args; /* indices of the forward's arguments */
    char *c;           /* C expression; NULL for "None" */
    bool fills;        /* C function or operator with several results: call fills grads[] */
    const op *multi;   /* the operator whose results are the gradients, if it is one */
    char *unsupported; /* why there is none, where the formula says so */
    int line;
    LIST(const op *) ops; /* what it calls: operators, and C functions by name */
    LIST(char *) functions;
    LIST(char *) lost; /* "argument of operator": has no gradient, but is passed what depends on the inputs */
} formula;

typedef struct grad_plan {
    formula *v;
    size_t n;
    saved_use *args;    /* one per forward argument */
    saved_use *results; /* one per result */
    bool uses_grad_list;
    unsigned grads_used; /* bit i: grad[i] is read */
} grad_plan;

/* A C formula function met in an expression, with its inferred prototype. */
typedef struct formula_fn {
    char *name, *prototype;
} formula_fn;
typedef LIST(formula_fn) formula_fn_list;
extern formula_fn_list formula_fns;

/* A function, macro or table of the C files, with the names that it mentions. */
typedef struct c_def {
    const char *file;
    char *name;
    LIST(char *) names;
    int line;
    bool local;  /* seen from its own file and, in a header, from those that include it */
    bool pastes; /* a macro that makes names with ## */
} c_def;

/* ---- stages ---- */

void die(const char *file, int line, const char *format, ...) FAC_PRINTF(3, 4);
void *xalloc(size_t n);
char *vformat(const char *format, va_list ap);
char *xformat(const char *format, ...) FAC_PRINTF(1, 2);
char *upper(const char *s);
char *cut(const char *begin, const char *end); /* what lies between */
const char *reason_after(const char *words,
                         const char *text); /* of "none, reason"; NULL without these words or a reason */
/* Whether a list that ends with NULL, or is NULL, has the word. */
bool lists(char *const *v, const char *word);
/* A file's text; stops if it cannot be read. */
char *read_text(const char *path);
/* As a string of C or JSON. */
void quoted(FILE *f, const char *s);
#define PUSH(list, x) ((list).v = xgrow((list).v, (list).n, sizeof *(list).v), (list).v[(list).n++] = (x))
typedef LIST(char *) texts;
/* The first of a list whose member, a text, is this; or NULL. */
#define FIND(list, member, text) \
    find_text((list).v, (list).n, sizeof *(list).v, offsetof(__typeof__(*(list).v), member), text)
void *find_text(void *v, size_t n, size_t size, size_t member, const char *text);
void *xgrow(void *p, size_t n, size_t elem);

/* "binary" of "dir/binary.yaml". */
char *family_of(const char *path);
void load_yaml(const char *path, model *m);
/* Puts the texts of other entries where an entry's refer to them. */
void complete_aliases(model *m);
void spell_out_references(model *m);
void build_model(model *m);
void plan_gradients(model *m);
/* The text of the operator's gradient for the argument, or NULL. */
const char *gradient_of(const op *o, const char *arg);
void load_header(const char *path, model *m);
/* A typedef, struct or enumeration between begin and end, without comments; false for one that is not C's. */
bool read_type(const char *path, int line, const char *begin, const char *end, declaration *out);
/* A macro from its #define on; false for one of the headers' own, or one that C++ defines again. */
bool read_macro(const char *text, const model *m, declaration *out);
void load_c(const char *path);
/* What `name` means in the file at `path`, or to all files where that is NULL. */
const c_def *find_c(const char *path, const char *name);
/* Stops with all dead ends that second derivatives would run into. */
void check_closure(const model *m);
const op *aliased(const op *o); /* the same form of the operator of which o is another name */
const op *find_op(const model *m, const char *base, const char *overload);
bool is_pointwise(const entry *e);

/* ---- facts (facts.c) ---- */

/* Stops where an entry leaves a fact open. */
void check_facts(const model *m);
/* Whether the operator's kernels get tensors with a conjugation or negation pending as they are. */
bool takes_pending(const op *o);
/* A fac_builtin_facts, as an initialiser. */
void emit_facts(FILE *f, const op *o);

/* ---- functional forms of operators that write lists (functionalised.c) ---- */

/* Adds an entry for each with 'functional: made', beside those of the files. */
void add_functionalised(model *m);
/* Writes the kernel. */
void emit_functionalised(FILE *f, const op *o);

/* ---- operators over lists (emit_foreach.c) ---- */

/* Of an entry with 'foreach': what follows from it. */
void settle_foreach(entry *e);
/* Writes the kernel; its name. */
char *emit_foreach(FILE *f, const op *o);

/* ---- modules (modules.c) ---- */

/* The constructors become functions of a header, with keywords. Once all headers are loaded. */
void add_modules(model *m);
void emit_modules_header(FILE *f, const model *m);
void emit_modules_structs(FILE *f, const model *m);
void emit_modules(FILE *f, const model *m);
void emit_modules_list(FILE *f, const model *m);

/* ---- loops (loops.c) ---- */

void load_formulas(const char *path, model *m);
/* The first loop of that name, or NULL. */
const loop *find_loop(const model *m, const char *name);
/* In a structured kernel: runs the loop that the entry names. */
void emit_loop_call(FILE *f, const op *o);
void emit_loops(FILE *f, const model *m);

/* ---- C as text (scan.c) ---- */

bool in_word(char c);
const char *word_end(const char *p);
const char *word_begin(const char *text, const char *end);
int line_at(const char *text, const char *at);
/* White space as one space, none at the ends. */
char *squeezed(const char *begin, const char *end);
/* The bracket that closes the one at `open`, or the text's end. */
const char *closing(const char *open);
/* The text with comments and literals blank; then the preprocessor's lines. Lines keep their numbers. */
char *blanked(const char *text);
void blank_directives(char *text);

/* ---- templates (words.c) ---- */

/* What a template speaks of. */
typedef struct words {
    const op *o;
    size_t i;             /* of the argument or result, for words that need one */
    const char *v, *from; /* $v and $from, for the moment */
} words;

/* Which arguments are meant; NULL: all. */
typedef bool (*arg_test)(const op *o, size_t i);

char *fill(const op *o, const char *text);
char *fill_at(const op *o, size_t i, const char *text);
char *fill_words(words w, const char *text);
/* The template is filled first, so that a value that holds a $ stays as it is. */
void emit(FILE *f, const op *o, const char *format, ...) FAC_PRINTF(3, 4);
void emit_at(FILE *f, const op *o, size_t i, const char *text);
/* The template for each argument, or each of a kind: NULL leaves the kind out. */
char *each(const op *o, arg_test which, const char *sep, const char *text);
char *each_kind(const op *o, arg_test which, const char *sep, const char *list, const char *tensor, const char *other);
char *each_result(const op *o, const char *sep, const char *text);
void emit_each(FILE *f, const op *o, arg_test which, const char *list, const char *tensor, const char *other);

/* ---- C spelling (cnames.c) ---- */

typedef struct type_words {
    const char *c;          /* as a kernel argument, "fac_tensor *" */
    const char *none;       /* nothing of the type */
    const char *kind, *box; /* in the names of what boxes it and reads it; $v in a fac_value */
} type_words;
extern const type_words spelt[]; /* by etype */

etype type_of(const fac_schema_type *t);
const char *c_type(const fac_schema_type *t);
char *boxed(const fac_schema_type *t, const char *name);
char *default_c(const op *o, const fac_schema_arg *a); /* C expression of the default, in the kernel's type */
bool is_tensor(const fac_schema_type *t);
bool is_tensor_list(const fac_schema_type *t);
bool returns_tensors(const op *o); /* every result is a Tensor */
bool returns_list(const op *o);    /* one Tensor[] */
bool returns_lists(const op *o); /* several results, some of them Tensor[]: each is a list in C, a Tensor one of one */
const op *base_of(const op *o);  /* the functional form, or o itself */
/* Two lists as one; "" is a list of nothing. */
char *joined(const char *a, const char *sep, const char *b);
char *listed(const char *a, const char *b); /* with ", " */
/* Of parameters or arguments of a kernel that draws: what the call has drawn instead of the generator, or as the last one. */
const char *with_draw(const op *o, const char *list, const char *draw);
char *params(const op *o);            /* "fac_tensor *self, ..., fac_tensor **res_" */
char *args(const op *o);              /* "self, other, res_" */
const char *out_param(const op *o);   /* "fac_tensor **res_", "" for no result */
const char *result_type(const op *o); /* public: "fac_tensor *", "fac_max_dim_result ", "bool " */
char *result_field(const op *o, size_t i);
int find_arg(const fac_schema *s, const char *name); /* -1: none */
bool is_reduction(const fac_schema_arg *a);
const char *failure_value(const op *o); /* what a call that failed returns */
char *trimmed(const char *type);        /* without the space at its end */

/* ---- keywords (keywords.c) ---- */

/* What an argument of a public stub is. */
bool is_out(const op *o, size_t i);
bool is_input(const op *o, size_t i); /* no out argument */
bool is_written(const op *o, size_t i);
bool is_positional(const op *o, size_t i);
bool is_keyword(const op *o, size_t i);
bool is_generator(const op *o, size_t i);
bool is_factory(const op *o);
/* How the operator is called for a batch: members of its facts. */
void emit_batch(FILE *f, const op *o);
void check_batch(const model *m);
/* Takes dtype and device from the tensor that it fills, where its functional form has keywords. */
bool is_factory_out(const op *o);
const char *plain_type(const fac_schema_type *t); /* as a public argument, where optional numbers are plain ones */
char *kw_name(const fac_schema_arg *a);           /* ".dim", which takes one number where the schema has a list of N */
char *kw_second_name(const fac_schema_arg *a); /* ".dims" for the list, ".alpha_scalar" for an exact number; or NULL */

/* A field of a keyword struct, in the struct's order: what may be given by position, the stray, then the rest. */
typedef struct kw_field {
    const char *type, *name, *init, *comment;
    const fac_schema_arg *arg; /* NULL for the stray and requires_grad */
    bool is_second;            /* goes by the second name */
} kw_field;
typedef LIST(kw_field) kw_fields;
kw_fields fields_of_keywords(const op *o);
void emit_kw_struct(FILE *f, const op *o);
/* The macro that divides the arguments of a call with keywords. `last` is the last one that is required, or NULL: behind the
   arguments stands a macro without its parentheses, which the initialiser of the keywords puts there, so that nothing is left of
   it. Where that argument is missing, it takes its place, and the compiler tells of the unknown name fac_NAME_needs_LAST_. */
void emit_kw_forward(FILE *f, const char *name, const char *last);
void emit_kw_init(FILE *f, const op *o);
/* In a stub: k_, the keywords as this build lays them out, checked; then the value of an argument, as the kernel takes it. */
void emit_kw_open(FILE *f, const op *o);
char *value_in_stub(const op *o, size_t i);
/* The check of one keyword that is read as it stands (keyword_checks.c). */
void emit_kw_check(FILE *f, const op *o, const fac_schema_arg *a);
void emit_kw_bool_check(FILE *f, const op *o, const char *keyword);

/* Of a function of the library's own: its keyword struct, its macro, kw_init, and what reads the struct. */
void emit_fn_struct(FILE *f, const op *o);
void emit_fn_macro(FILE *f, const op *o);
/* The same for C++: an overload that takes the keywords by reference. */
void emit_fn_overload(FILE *f, const op *o);
void emit_fn_init(FILE *f, const op *o);
void emit_fn_open(FILE *f, const op *o);

/* ---- the place of a call (headers.c): what surrounds a call in a macro ---- */

/* The functions that FAC_AT_ needs for a type; `how` says how r looks after a failure, NULL: by the type. */
void emit_at_inline(FILE *f, const char *type, const char *how);
/* Up to the call; what follows the call is one parenthesis. */
char *at_begin(const char *type, bool must);
/* A macro that only tells the place. */
void emit_place(FILE *f, const char *name, const char *type, bool must);
/* The macros of a header's functions that take no keywords. */
void emit_header_macros(FILE *f, const model *m, const char *header);
bool must_use(const op *o);
/* The keywords of a function, or NULL; the prototype of a function with keywords. */
const op *fn_keywords(const model *m, const function *fn);
const function *fn_prototype(const op *o);

/* ---- output (emit_*.c); each writes what one operator yields, or a whole file ---- */

typedef struct output {
    char *path, *text;
    size_t size;
    FILE *f;
} output;
void open_output(output *o, const char *dir, const char *name);
/* Long lines are broken, and `#line 0` becomes the true number. */
void close_output(output *o);

void emit_decl(FILE *f, const op *o);
void emit_macros(FILE *f, const op *o);
/* What only tells the place of a call. */
void emit_c_places(FILE *f, const op *o);
void emit_cpp_places(FILE *f, const op *o);
/* The functions that FAC_AT_ needs for the result. */
void emit_result_inline(FILE *f, const op *o);
void emit_hpp(FILE *f, const op *o);
void emit_internal_decl(FILE *f, const op *o);
/* Calls, kernels, autograd and rows. */
void emit_implementation(FILE *f, const op *o);
void write_all(const char *dir, const model *m, const texts *families);
char *public_params(const op *o);
char *positional(const op *o, const char *text);
char *macro_argument(const fac_schema_arg *a);
char *gradient_text(const op *o);
const char *gradient_source(const op *o); /* of composites too; NULL if no argument has one */
void emit_result_struct(FILE *f, const op *o);
void emit_calls(FILE *f, const op *o);
/* What registers a kernel: a key, and a template of the function's name. */
typedef struct row {
    const char *key, *fn;
} row;
typedef LIST(row) rows;
rows emit_kernels(FILE *f, const op *o);
void emit_autograd(FILE *f, const op *o);
void emit_rows(FILE *f, const op *o, const rows *k);
bool writes(const op *o);
char *any_requires_grad(const op *o, arg_test which); /* as a C expression */
char *edge_of(const op *o, size_t arg, bool is_made);
const op *example_of(const model *m, int sig); /* the first operator of the signature */
void emit_redispatch(FILE *f, const op *o);    /* declarations */
void emit_shared_calls(FILE *f, const char *signature, const op *example);
void emit_adapter(FILE *f, const char *signature, const op *example);
void emit_api(FILE *f, const model *m);

#endif
