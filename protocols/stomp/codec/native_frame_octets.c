/* The native form of frame_octets.py, which says what each function does. */

#include "../../../engine/values/native_arguments.h"

enum { DIGITS_MAX = 20 }; /* of a 64-bit number, with its sign */

typedef struct {
    char digits[DIGITS_MAX];
    Piece piece;
} Decimal;

static const char pairs[] = /* of digits */
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

static void
write_decimal(Decimal *decimal, int64_t number)
{
    char *end = decimal->digits + DIGITS_MAX, *at = end;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    for (; rest >= 100; rest /= 100) {
        at -= 2;
        memcpy(at, pairs + 2 * (rest % 100), 2);
    }
    if (rest >= 10) {
        at -= 2;
        memcpy(at, pairs + 2 * rest, 2);
    } else {
        *--at = (char)('0' + rest);
    }
    if (number < 0) {
        *--at = '-';
    }
    decimal->piece = (Piece){at, (size_t)(end - at)};
}

static int
get_decimal(PyObject *object, Decimal *decimal)
{
    int64_t number;
    if (get_signed(object, &number) < 0) {
        return -1;
    }
    write_decimal(decimal, number);
    return 0;
}

static inline int
is_plain(char octet)
{
    return octet >= '!' && octet <= '~' && octet != '\\';
}

static PyObject *
value_between(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    Piece octets, before, after;
    size_t start, size_max;
    if (check_count("value_between", count, 5) < 0 || get_octets(arguments[0], &octets) < 0 ||
        get_size(arguments[1], &start) < 0 || get_octets(arguments[2], &before) < 0 ||
        get_octets(arguments[3], &after) < 0 || get_size(arguments[4], &size_max) < 0) {
        return NULL;
    }
    if (!has_at(octets, start, before)) {
        Py_RETURN_NONE;
    }
    size_t value = start + before.size;
    size_t limit = octets.size - value < size_max ? octets.size : value + size_max;
    size_t at = value;
    while (at < limit && is_plain(octets.octets[at])) {
        at++;
    }
    if (at == value || !has_at(octets, at, after)) {
        Py_RETURN_NONE;
    }
    return PyBytes_FromStringAndSize(octets.octets + value, (Py_ssize_t)(at - value));
}

static PyObject *
decimal(PyObject *Py_UNUSED(module), PyObject *number)
{
    Decimal written;
    if (get_decimal(number, &written) < 0) {
        return NULL;
    }
    return joined(&written.piece, 1);
}

static PyObject *
ack_line(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    Piece before, key;
    if (check_count("ack_line", count, 2) < 0 || get_octets(arguments[0], &before) < 0 ||
        get_octets(arguments[1], &key) < 0) {
        return NULL;
    }
    const Piece pieces[] = {before, TEXT("ack:"), key, TEXT("\n")};
    return joined(pieces, Py_ARRAY_LENGTH(pieces));
}

static PyObject *
message_head(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    Piece id_prefix, persistent;
    Decimal number, priority, expires, length, time;
    if (check_count("message_head", count, 7) < 0 || get_octets(arguments[0], &id_prefix) < 0 ||
        get_decimal(arguments[1], &number) < 0 || get_decimal(arguments[2], &priority) < 0 ||
        get_decimal(arguments[3], &expires) < 0 || get_octets(arguments[4], &persistent) < 0 ||
        get_decimal(arguments[5], &length) < 0 || get_decimal(arguments[6], &time) < 0) {
        return NULL;
    }
    int is_text = length.piece.octets[0] == '-';
    const Piece nothing = TEXT("");
    const Piece pieces[] = {
        TEXT("message-id:"), id_prefix, number.piece,
        TEXT("\npriority:"), priority.piece,
        TEXT("\nexpires:"), expires.piece,
        TEXT("\n"), persistent,
        is_text ? nothing : TEXT("content-length:"), is_text ? nothing : length.piece, is_text ? nothing : TEXT("\n"),
        TEXT("timestamp:"), time.piece, TEXT("\n"),
    };
    return joined(pieces, Py_ARRAY_LENGTH(pieces));
}

static PyMethodDef methods[] = {
    NATIVE_FUNCTION(value_between, "frame_octets.py"),
    {"decimal", decimal, METH_O, "See frame_octets.py."},
    NATIVE_FUNCTION(ack_line, "frame_octets.py"),
    NATIVE_FUNCTION(message_head, "frame_octets.py"),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "native_frame_octets", .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC
PyInit_native_frame_octets(void)
{
    return native_module(&definition);
}
