"""What holds for the server's rule of every method (and for which it does not, with the reason): walks the registry."""

from fedshift.common.registry import names
from fedshift.testing.contract import ServerRuleContract
from fedshift.testing.toys import method

METHODS = tuple(names("methods"))
GENERATED = {name: "clients' models are generated" for name in METHODS if method(name).generates}
NOT_AVERAGING = GENERATED | {"feddyn": "the server's h moves the average"}
NOT_EQUAL = NOT_AVERAGING | {"fedfa": "its buffer R is the variance over clients, 0 for equal ones"}
NO_AVERAGE = {"central": "one pooled client", "local": "clients share nothing"}
NOT_SYMMETRIC = {"central": "one pooled client", "pfedhn": "clients come one after the other"}


class TestServerRules(ServerRuleContract):
    names = METHODS
    exempt = {
        "test_the_weights_it_is_given_count_unless_it_weighs_clients_itself": NO_AVERAGE | GENERATED,
        "test_the_order_of_clients_does_not_matter_to_the_server": NOT_SYMMETRIC,
        "test_equal_clients_give_what_one_of_them_gives": NOT_EQUAL,
        "test_one_client_alone_gets_its_own_model_back": NOT_AVERAGING,
        "test_all_clients_receive_the_same_shared_entries": GENERATED,
    }
