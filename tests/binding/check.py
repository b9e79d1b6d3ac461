#!/usr/bin/env python3
"""The binding of examples/python against the library: check.py LIBRARY API_JSON. What is right comes from arithmetic done here."""
import ctypes as C
import gc
import inspect
import pathlib
import subprocess
import sys
import tempfile
import threading
import zipfile

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"
sys.path.insert(0, str(EXAMPLES))
import facula  # noqa: E402


def structs_have_the_librarys_layout(f):
    """The size that the library writes into a keyword struct is that of the struct made from the list."""
    count = 0
    for function in f.api["functions"]:
        if "keyword_struct" in function:
            kw = f.keyword_struct(function)()
            getattr(f.lib, function["keyword_struct"] + "_init")(C.byref(kw))
            assert kw.kw_size == C.sizeof(kw), function["keyword_struct"]
            count += 1
    assert count > 300, count


def every_function_has_a_symbol_and_types(f):
    for name, function in f.functions.items():
        if not function.get("variadic") and not any("(*" in p["type"] for p in function["parameters"]):
            f.symbol(name)


def operators_are_called_by_name(f):
    x = f.tensor([[1, 5, 2], [7, 3, 4]])
    assert x.shape == (2, 3) and x.dtype == "float32"
    assert f.sum(x, dim=1).tolist() == [8, 14] == f.sum(x, 1).tolist()
    assert f.sum(x, dims=[0, 1], keepdim=True).tolist() == [[22]]
    assert f.add(x, x, alpha=2).tolist() == [[3, 15, 6], [21, 9, 12]]
    assert (2 * x - 1).tolist() == [[1, 9, 3], [13, 5, 7]]
    best = f.max_dim(x, 1)
    assert best.values.tolist() == [5, 7] and best.indices.tolist() == [1, 0]
    assert [part.shape for part in f.split(x, 2, dim=1)] == [(2, 2), (2, 1)]
    assert f.softmax(x, dim=1).shape == (2, 3) and f.transpose(x, dim0=0, dim1=1).shape == (3, 2)
    assert x["1, ::2"].tolist() == [7, 4] and x[1].tolist() == [7, 3, 4]
    assert (x == 5).tolist() == [[0, 1, 0], [0, 0, 0]] and (3 >= x).tolist() == [[1, 0, 1], [0, 1, 0]]
    assert f.zeros([2], dtype=f.F16, device="cpu").dtype == "float16"


def numbers_arrive_as_they_are(f):
    large = [2**24 + 1, -2**53 - 1, 2**63 - 1]
    assert f.tensor(large, dtype=f.I64).tolist() == large
    assert f.tensor([0.1], dtype=f.F64).tolist() == [0.1]
    assert f.tensor([[], []]).shape == (2, 0) and f.tensor(3).shape == ()
    assert f.tensor([[True], [False]], dtype=f.BOOL).tolist() == [[1], [0]]


def gradients_agree_with_the_closed_form(f):
    x = f.tensor([1, -2, 3], requires_grad=True)
    f.sum(x * x * x).backward()
    assert x.grad.tolist() == [3, 12, 27]
    w = f.tensor([[2], [4]], requires_grad=True)
    f.mean(f.tensor([[1, 2], [3, 4]]) @ w).backward()
    assert w.grad.tolist() == [[2], [3]]


def errors_become_exceptions(f):
    try:
        place = inspect.currentframe().f_lineno + 1
        f.matmul(f.tensor([[1, 2]]), f.tensor([[1, 2]]))
    except facula.Error as e:
        assert e.code == "SHAPE" and "1x2" in str(e) and e.place == (__file__, place), (str(e), e.place)
    else:
        raise AssertionError("no exception")
    assert f.tensor([1]).tolist() == [1]  # the next valid call works
    layer = f.sequential(f.linear_new(3, 4))
    try:
        layer(f.tensor([[1, 2]]))
    except facula.Error as e:
        assert e.module == "0", e.module
    for wrong, kind in ((lambda: f.sum(f.tensor([1]), dimension=0), TypeError), (lambda: f.sum(), TypeError),
                        (lambda: f.tensor([[1, 2], [3]]), ValueError), (lambda: f.tensor([[1], [2, 3]]), ValueError),
                        (lambda: f.tensor([1, [2]]), TypeError), (lambda: f.tensor([[1], 2]), ValueError),
                        (lambda: bool(f.tensor([1, 2])), facula.Error), (lambda: f.tensor([1])[0.5], TypeError),
                        (lambda: f.softmax(f.tensor([1]), dimm=0), TypeError),
                        (lambda: f.sum(f.tensor([1]), dim=2**64), OverflowError), (lambda: f.sum(f.tensor([1]), dim="0"), TypeError),
                        (lambda: f.add_no_such, AttributeError)):
        try:
            wrong()
        except kind:
            continue
        raise AssertionError(inspect.getsource(wrong))


def objects_live_as_long_as_their_names(f):
    gc.collect()
    before = f.live()
    x = f.tensor([1, 2], requires_grad=True)
    model = f.sequential(f.linear_new(2, 2), f.relu_new())
    optimizer = f.sgd_new(model, 0.1, momentum=0.9)
    y = f.sum(model(x["None, :"]))
    y.backward()
    f.optimizer_step(optimizer)
    assert f.live() > before
    del x, model, y
    assert optimizer is not None
    f.optimizer_step(optimizer)  # which holds the parameters
    del optimizer
    gc.collect()
    assert f.live() == before, f"{f.live() - before} objects are left"


def every_kind_of_object_is_released_once(f):
    """Each kind for which the list has a function that releases it, but for those that only callbacks can make."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text").write_text("a text of some words, of which some come again and again\n" * 50)
        paths = (C.c_char_p * 1)(str(folder / "text").encode())
        model = f.linear_new(2, 2)
        optimizer = f.sgd_new(model, 0.1)
        f.state_save(f.module_state_dict(model), str(folder / "state"))
        with zipfile.ZipFile(folder / "arrays.npz", "w"):
            pass
        (folder / "table").write_text("a,b\n1,2\n")
        makers = {"fac_vocab *": [lambda: f.vocab_bytes(), lambda: f.vocab_characters("abc", 3), lambda: f.vocab_bpe("ab ab ab", 8, 300),
                                  lambda: f.vocab_bpe_of("97 98\n", 6)],
                  "fac_dataset *": [lambda: f.dataset_of_tensors([f.tensor([1, 2, 3])])],
                  "fac_sampler *": [lambda: f.sampler_new(10, True, 1), lambda: f.sampler_subset([4, 2])], "fac_generator *": [lambda: f.generator_new(1)],
                  "fac_corpus *": [lambda: f.corpus_new(C.addressof(paths), 1)],
                  "fac_loader *": [lambda: f.loader_new([f.tensor([1, 2, 3])])], "fac_module *": [lambda: f.relu_new(), lambda: f.module_copy(model)],
                  "fac_lr_scheduler *": [lambda: f.exponential_lr_new(optimizer, 0.9), lambda: f.step_lr_new(optimizer, 2)],
                  "fac_optimizer *": [lambda: f.sgd_new(model, 0.1)], "fac_safetensors *": [lambda: f.safetensors_open(str(folder / "state"))],
                  "fac_tensor_file *": [lambda: f.npz_open(str(folder / "arrays.npz"))], "fac_csv *": [lambda: f.csv_open(str(folder / "table"))],
                  "fac_state *": [lambda: f.state_new(), lambda: f.state_load(str(folder / "state")), lambda: f.module_parameters(model)], "fac_event *": [lambda: f.event_new(f.CPU)],
                  "fac_grad_scaler *": [lambda: f.grad_scaler_new()]}
        elsewhere = {"fac_tensor *", "char *", "fac_value *",  # which Python has as other things
                     "fac_cuda_module *", "fac_memory_snapshot *", "fac_caching_allocator *",  # of devices
                     "fac_registration *"}  # stays
        assert set(f.releases) == set(makers) | elsewhere, set(f.releases) ^ (set(makers) | elsewhere)
        for type_, recipes in makers.items():
            for make in recipes:
                release = getattr(f, f.releases[type_].removeprefix("fac_"))
                for way in (lambda: make().pointer, lambda: make().close(), lambda: release(make())):
                    released = counted(f, f.releases[type_], way)
                    assert len(released) == 1 and released[0], (type_, released)
        assert len(counted(f, "fac_vocab_release", lambda: f.vocab_keep(f.vocab_bytes()))) == 2
        assert len(counted(f, "fac_state_free", lambda: f.state_part(f.state_new(), "a."))) == 2


def counted(f, name, work):
    """The addresses that are given to a releasing function while something is done, and what was made for it goes."""
    addresses, symbol = [], f.symbol

    def release(pointer):
        addresses.append(pointer.value if isinstance(pointer, C.c_void_p) else pointer)
        return symbol(name)(pointer)

    f.symbol = lambda other: release if other == name else symbol(other)
    try:
        work()
        gc.collect()
    finally:
        del f.symbol
    return addresses


def what_is_borrowed_is_not_released(f):
    """The vocabulary of a corpus lives as long as somebody has either."""
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "text"
        path.write_text("some words and some more words\n" * 50)
        paths = (C.c_char_p * 1)(str(path).encode())
        made = []
        assert not counted(f, "fac_vocab_release", lambda: made.append(f.corpus_vocab(f.corpus_new(C.addressof(paths), 1))))
        assert f.vocab_size(made[0]) > 0
    assert not counted(f, "fac_generator_release", lambda: f.default_generator().pointer)
    parent = f.sequential()
    child = f.linear_new(2, 3)
    f.module_add(parent, "child", child)
    assert f.module_child(parent, "child").pointer == child.pointer
    del parent
    assert child(f.tensor([[1, 2]])).shape == (1, 3)
    parent = f.sequential(f.linear_new(2, 3))
    borrowed = f.module_child(parent, "0")
    parent.close()
    try:
        borrowed(f.tensor([[1, 2]]))
    except facula.Error as e:
        assert "NULL" in str(e), str(e)
    else:
        raise AssertionError("what was borrowed from a closed object is used")


def tensors_and_texts_are_released_once(f):
    gc.collect()
    before = f.live()
    x = f.tensor([1, 2])
    assert f.keep(x).tolist() == [1, 2]
    assert repr(x).startswith("tensor([1., 2.]") and f.tensor_string(x) == repr(x), f.tensor_string(x)
    assert len(counted(f, "fac_string_free", lambda: f.tensor_string(x))) == 1
    f.release(x)
    try:
        x.tolist()
    except facula.Error as e:
        assert "NULL" in str(e), str(e)
    else:
        raise AssertionError("a tensor that was released is used")
    del x
    gc.collect()
    assert f.live() == before, f"{f.live() - before} objects are left"


def tensors_pass_between_threads(f):
    results = {}

    def work(i):
        x = f.full([100], i)
        results[i] = sum(f.sum(x).item() for _ in range(50))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {i: 5000 * i for i in range(4)}, results


def the_example_learns(f):
    subprocess.run([sys.executable, "-B", EXAMPLES / "train.py"] + sys.argv[1:], check=True)


def main():
    f = facula.Facula(*sys.argv[1:])
    for check in (structs_have_the_librarys_layout, every_function_has_a_symbol_and_types, operators_are_called_by_name,
                  numbers_arrive_as_they_are, gradients_agree_with_the_closed_form, errors_become_exceptions,
                  objects_live_as_long_as_their_names, every_kind_of_object_is_released_once, what_is_borrowed_is_not_released,
                  tensors_and_texts_are_released_once, tensors_pass_between_threads, the_example_learns):
        check(f)
        print("ok", check.__name__)


main()
