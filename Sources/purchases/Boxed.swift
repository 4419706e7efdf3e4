/// A large value behind a reference: the record that it is in is handed around far more often than
/// it changes, and each copy of the value would count a reference for every text in it.
@propertyWrapper
struct Boxed<Value: Equatable>: Equatable {
    private final class Box {
        let value: Value

        init(_ value: Value) {
            self.value = value
        }
    }

    private var box: Box?

    init(wrappedValue: Value?) {
        box = wrappedValue.map { Box($0) }
    }

    var wrappedValue: Value? {
        get { box?.value }
        set { box = newValue.map { Box($0) } }
    }

    static func == (one: Boxed, other: Boxed) -> Bool {
        one.box === other.box || one.wrappedValue == other.wrappedValue
    }
}
