// Puts the memory of one StorageImpl under another, without a copy, and lets a discarded one refuse access.
//
// The storages come in as the addresses that Python shows as `UntypedStorage._cdata`, so that c10 and the C API
// of Python are all that is needed: this builds in seconds, where torch/extension.h takes half a minute.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <c10/core/StorageImpl.h>

#include <exception>
#include <string>
#include <type_traits>
#include <utility>

namespace {

using Storage = c10::StorageImpl;
using Owner = c10::intrusive_ptr<Storage>;

template <class T, class = void>
struct can_refuse : std::false_type {};
template <class T>
struct can_refuse<
    T,
    std::void_t<
        decltype(std::declval<T&>().release_data_and_set_meta_custom_data_ptr_error_msg_(std::string()))>>
    : std::true_type {};

template <class T, class = void>
struct can_clear : std::false_type {};
template <class T>
struct can_clear<T, std::void_t<decltype(std::declval<T&>().clear_data_ptr_access_error_msg_())>>
    : std::true_type {};

#ifdef STORAGE_KEEPS_REFUSAL_PRIVATE
// Before torch 2.12 a storage that refuses access cannot be told to give it again: the flag is private. An
// explicit instantiation may name it all the same. Whoever puts a new pointer in has the rest brought up to date.
template <class Tag, typename Tag::type Member>
struct Opened {
  friend typename Tag::type member(Tag) {
    return Member;
  }
};
struct Refusal {
  using type = bool Storage::*;
  friend type member(Refusal);
};
template struct Opened<Refusal, &Storage::throw_on_immutable_data_ptr_>;

void clear_privately(Storage& storage) {
  storage.*member(Refusal()) = false;
}
constexpr bool clears_privately = true;
#else
void clear_privately(Storage&) {}
constexpr bool clears_privately = false;
#endif

template <class T>
constexpr bool can_guard = can_refuse<T>::value && (can_clear<T>::value || clears_privately);

template <class T>
void guard(T& storage, const char* message) {
  if constexpr (can_guard<T>) {
    storage.release_data_and_set_meta_custom_data_ptr_error_msg_(std::string(message));
  }
}

template <class T>
void unguard(T& storage) {
  if constexpr (can_clear<T>::value) {
    storage.clear_data_ptr_access_error_msg_();
  } else {
    clear_privately(storage);
  }
}

void release(void* context) {
  delete static_cast<Owner*>(context);
}

// A pointer to the owner's bytes that keeps the owner alive.
at::DataPtr reference(const Owner& owner) {
  void* data = owner->data_ptr().get();
  return at::DataPtr(data, new Owner(owner), &release, owner->device());
}

// The storage that owns src's bytes. At the first sharing that is a new one, to which src's own pointer moves,
// deleter and all, so that whatever becomes of src afterwards (resized, shared over, freed) takes the bytes
// from nobody. Chains do not grow: whoever borrows from a borrower gets the same owner.
Owner owner_of(Storage& src) {
  const at::DataPtr& pointer = src.mutable_data_ptr();  // writes out a lazy copy-on-write clone
  if (pointer.get_deleter() == &release) {
    return *static_cast<Owner*>(pointer.get_context());
  }
  Owner owner = c10::make_intrusive<Storage>(
      Storage::use_byte_size_t(),
      src.nbytes(),
      src.set_data_ptr(at::DataPtr(nullptr, src.device())),
      /*allocator=*/nullptr,
      /*resizable=*/false);
  src.set_data_ptr_noswap(reference(owner));
  return owner;
}

void share_bytes(Storage& dst, Storage& src) {
  Owner owner = owner_of(src);
  unguard(dst);
  dst.set_data_ptr_noswap(reference(owner));
  dst.set_nbytes(src.nbytes());
}

Storage* storage_at(PyObject* address) {
  return static_cast<Storage*>(PyLong_AsVoidPtr(address));
}

template <class Work>
PyObject* translating_errors(Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* share(PyObject*, PyObject* args) {
  PyObject *dst, *src;
  if (!PyArg_ParseTuple(args, "OO", &dst, &src)) {
    return nullptr;
  }
  return translating_errors([&] { share_bytes(*storage_at(dst), *storage_at(src)); });
}

PyObject* refuse_access(PyObject*, PyObject* args) {
  PyObject* storage;
  const char* message;
  if (!PyArg_ParseTuple(args, "Os", &storage, &message)) {
    return nullptr;
  }
  return translating_errors([&] { guard(*storage_at(storage), message); });
}

PyMethodDef methods[] = {
    {"share", share, METH_VARARGS, "share(dst, src): dst's storage shows src's bytes and keeps them alive."},
    {"refuse_access", refuse_access, METH_VARARGS, "refuse_access(storage, message): reading it raises."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "checkpoint_share_storage", nullptr, -1, methods};

} // namespace

PyMODINIT_FUNC PyInit_checkpoint_share_storage() {
  PyObject* module = PyModule_Create(&definition);
  if (module != nullptr) {
    PyModule_AddIntConstant(module, "GUARDS", can_guard<Storage> ? 1 : 0);
  }
  return module;
}
