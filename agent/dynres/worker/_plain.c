/* Reads batches that give a plain number for each of the same names: what `plain_numbers.py` does
   first, where this could be compiled. It takes numbers that a division of two exact doubles gives
   exactly, and leaves whatever else there is to Python. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>

#if FLT_EVAL_METHOD != 0
#error "doubles are not rounded once here: Python reads the numbers"
#endif

/* So many decimal digits are always a whole number below 2**53, and powers of ten up to 10**22 are
   exact: then the quotient is the double nearest to the decimal number (Clinger 1990). */
#define DIGITS 15

static const double powers[DIGITS + 1] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

static int is_digit(char character) { return character >= '0' && character <= '9'; }

/* The number that [at, end) begins with; where it ends, or NULL: none that is this plain. */
static const char *number(const char *at, const char *end, double *value) {
    int negative = at < end && *at == '-';
    at += negative;
    const char *begin = at;
    long long digits = 0;
    for (; at < end && is_digit(*at) && at - begin <= DIGITS; at++) digits = 10 * digits + (*at - '0');
    Py_ssize_t count = at - begin, places = 0;
    if (count == 0 || (*begin == '0' && count > 1)) return NULL;
    if (at < end && *at == '.') {
        begin = ++at;
        for (; at < end && is_digit(*at) && count + (at - begin) <= DIGITS; at++)
            digits = 10 * digits + (*at - '0');
        places = at - begin;
        if (places == 0) return NULL;
    }
    if (count + places > DIGITS) return NULL;
    *value = (double)digits / powers[places];
    if (negative && digits) *value = -*value; /* -0 is 0 */
    return at;
}

/* Whether all `count` numbers are there. */
static int read_lines(const char *at, const char *end, const char *name, const char *names_end,
                      double *numbers, Py_ssize_t count) {
    for (Py_ssize_t place = 0; place < count; place++) {
        while (name < names_end && *name != '\n')
            if (at == end || *at++ != *name++) return 0;
        name++;
        if (at == end || *at++ != '=' || (at = number(at, end, &numbers[place])) == NULL) return 0;
        if (place + 1 < count ? at == end || *at++ != '\n' : at != end) return 0;
    }
    return at == end;
}

static PyObject *read_numbers(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    if (count != 3 || !PyBytes_Check(given[0]) || !PyBytes_Check(given[1])) {
        PyErr_SetString(PyExc_TypeError, "expected read(text: bytes, names: bytes, count: int)");
        return NULL;
    }
    Py_ssize_t wanted = PyLong_AsSsize_t(given[2]), most = PyBytes_GET_SIZE(given[0]) + 1;
    if (wanted < 0) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "count below 0");
    if (wanted > most) Py_RETURN_NONE; /* there are not as many lines in it */
    PyObject *doubles = PyBytes_FromStringAndSize(NULL, wanted * (Py_ssize_t)sizeof(double));
    if (doubles == NULL) return NULL;
    const char *text = PyBytes_AS_STRING(given[0]), *names = PyBytes_AS_STRING(given[1]);
    if (read_lines(text, text + PyBytes_GET_SIZE(given[0]), names,
                   names + PyBytes_GET_SIZE(given[1]), (double *)PyBytes_AS_STRING(doubles), wanted))
        return doubles;
    Py_DECREF(doubles);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"read", (PyCFunction)(void (*)(void))read_numbers, METH_FASTCALL,
     "read(text, names, count) -> doubles, or None where a line is no name and plain number."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_plain", NULL, 0, methods,
                                        NULL,                  NULL,     NULL, NULL};

PyMODINIT_FUNC PyInit__plain(void) { return PyModuleDef_Init(&definition); }
